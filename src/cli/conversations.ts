import type { Command } from 'commander'
import { connect } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, dim, localTime, printable, printJson } from './output.ts'

interface ConversationsFlags extends Record<string, unknown> {
  json?: boolean
}

const SHOWN = 50

export function conversationsCommand(): Command {
  return commandWith('conversations', ['project', 'dataDir', 'url'])
    .description('List conversations, most recently changed first')
    .argument('[words...]', 'search words in titles and messages')
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
Other commands use the first conversation by default.

Examples:
  waymark conversations
  waymark conversations login`,
    )
    .action(async (words: string[], flags: ConversationsFlags) => {
      const client = await connect(flags)
      const query = words.length === 0 ? {} : { q: words.join(' ') }
      const { items, next_cursor } = await client.listConversations({ limit: SHOWN, ...query })
      if (flags.json) return printJson(items)
      if (items.length === 0) return console.log('No conversations found.')
      for (const { id, title, updated_at, active_session, is_asking, is_running } of items) {
        const session = active_session === null ? '' : `  ${active_session}`
        const state = is_asking ? '  (waiting for approval)' : is_running ? '  (running)' : ''
        console.log(`${bold(id)}  ${dim(localTime(updated_at))}${session}  ${printable(title ?? '')}${state}`)
      }
      if (next_cursor !== null) console.log(dim(`Only the first ${SHOWN} are shown.`))
    })
}
