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
    .description('List conversations, the one that changed last first')
    .argument('[words...]', 'only those with these words in their title or messages')
    .option('--json', 'print it as JSON')
    .addHelpText(
      'after',
      `
The first one is what other commands act on unless they are told otherwise.

Examples:
  waymark conversations
  waymark conversations login`,
    )
    .action(async (words: string[], flags: ConversationsFlags) => {
      const client = await connect(flags)
      const query = words.length === 0 ? {} : { q: words.join(' ') }
      const { items, next_cursor } = await client.listConversations({ limit: SHOWN, ...query })
      if (flags.json) return printJson(items)
      if (items.length === 0) return console.log('There is none.')
      for (const { id, title, updated_at, active_session } of items) {
        const session = active_session === null ? '' : `  ${active_session}`
        console.log(`${bold(id)}  ${dim(localTime(updated_at))}${session}  ${printable(title ?? '')}`)
      }
      if (next_cursor !== null) console.log(dim('There are more.'))
    })
}
