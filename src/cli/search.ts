import type { Command } from 'commander'
import { connect } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, dim, localTime, printable, printJson } from './output.ts'

interface SearchFlags extends Record<string, unknown> {
  conversation?: string
  limit?: string
  json?: boolean
}

export function searchCommand(): Command {
  return commandWith('search', ['project', 'dataDir', 'url'])
    .description('Search the messages of all conversations')
    .argument('<words...>', 'the text to find, ignoring case')
    .option('-c, --conversation <id>', 'only this conversation')
    .option('-n, --limit <count>', 'the number of messages to show', '20')
    .option('--json', 'print the messages as JSON')
    .addHelpText(
      'after',
      `
Lists the newest messages that contain the text. A message that forks share is listed once.

Examples:
  waymark search rounding
  waymark search "exact totals" -c conv_01m7ge5wdas4rvsp14pjg3nkaf`,
    )
    .action(async (words: string[], flags: SearchFlags) => {
      const client = await connect(flags)
      const { items, has_more } = await client.search({
        q: words.join(' '),
        limit: Number(flags.limit),
        ...(flags.conversation === undefined ? {} : { conversation_id: flags.conversation }),
      })
      if (flags.json) return printJson(items)
      if (items.length === 0) return console.log('No messages found.')
      for (const { conversation_id, event_number, role, created_at, excerpt, match } of items) {
        const [from, to] = match
        const who = role === 'user' ? 'you' : 'agent'
        console.log(dim(`${conversation_id}  event ${event_number}  ${localTime(created_at)}  ${who}`))
        const [before, found, after] = [excerpt.slice(0, from), excerpt.slice(from, to), excerpt.slice(to)]
        console.log(`  ${printable(before)}${bold(printable(found))}${printable(after)}`)
      }
      if (has_more) console.log(dim(`Only the newest ${items.length} are shown; use --limit for more.`))
    })
}
