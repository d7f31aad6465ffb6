import { type Command, Option } from 'commander'
import type { Client } from '../client/index.ts'
import { type SearchFilters, searchedKinds } from '../protocol/api/conversations.ts'
import { connect } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, dim, localTime, printable, printJson } from './output.ts'

interface SearchFlags extends Record<string, unknown>, SearchFilters {
  conversation?: string
  limit?: string
  json?: boolean
}

export function searchCommand(): Command {
  return commandWith('search', ['project', 'dataDir', 'url'])
    .description('Search what was said, called and edited in all conversations')
    .argument('<words...>', 'the words to find, ignoring case; the last may be the start of a word')
    .option('-c, --conversation <id>', 'only this conversation')
    .addOption(new Option('--kind <kind>', 'only results of this kind').choices([...searchedKinds]))
    .addOption(
      new Option('--author <author>', 'only what a person or the agent said or did').choices([
        'user',
        'agent',
      ]),
    )
    .option('--tool <name>', 'only calls of this tool')
    .option('--path <path>', 'only calls and edits of this file or folder')
    .option('--since <date>', 'only from this date on, e.g. 2026-11-01')
    .option('--until <date>', 'only before this date')
    .option('-n, --limit <count>', 'the number of results to show', '20')
    .option('--json', 'print the results as JSON')
    .addHelpText(
      'after',
      `
Lists the newest results that have all words. Results that forks share are listed once.

Examples:
  waymark search rounding
  waymark search exact totals -c conv_01m7ge5wdas4rvsp14pjg3nkaf
  waymark search round --kind edit --path src/basket
  waymark search npm test --tool run_command --since 2026-11-01`,
    )
    .action(async (words: string[], flags: SearchFlags) => {
      const client = await connect(flags)
      const { items, has_more } = await client.search({
        q: words.join(' '),
        limit: Number(flags.limit),
        ...(flags.conversation === undefined ? {} : { conversation_id: flags.conversation }),
        ...filtersIn(flags),
      })
      if (flags.json) return printJson(items)
      const titles = await titlesOf(client, new Set(items.map(({ conversation_id }) => conversation_id)))
      if (items.length === 0) return console.log('Nothing found.')
      for (const { conversation_id, event_number, kind, tool, path, created_at, excerpt, match } of items) {
        const [from, to] = match
        const what = [kind, tool ?? path].filter((part) => part != null).join(' ')
        const title = titles.get(conversation_id) ?? 'Untitled'
        const place = `${conversation_id}  event ${event_number}  ${localTime(created_at)}`
        console.log(dim(`${place}  ${printable(what)}  ${printable(title)}`))
        const [before, found, after] = [excerpt.slice(0, from), excerpt.slice(from, to), excerpt.slice(to)]
        console.log(`  ${printable(before)}${bold(printable(found))}${printable(after)}`)
      }
      if (has_more) console.log(dim(`Only the newest ${items.length} are shown; use --limit for more.`))
    })
}

async function titlesOf(client: Client, ids: ReadonlySet<string>): Promise<Map<string, string | null>> {
  const found = await Promise.all(
    Array.from(ids, async (id) => [id, (await client.conversation(id)).title] as const),
  )
  return new Map(found)
}

function filtersIn({ kind, author, tool, path, since, until }: SearchFlags): SearchFilters {
  const given = Object.entries({ kind, author, tool, path, since, until })
  return Object.fromEntries(given.filter(([, value]) => value !== undefined))
}
