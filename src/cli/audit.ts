import type { Command } from 'commander'
import { connect } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, dim, localTime, printable, printJson } from './output.ts'

const SHOWN = 50

export function auditCommand(): Command {
  return commandWith('audit', ['project', 'dataDir', 'url'])
    .description(
      'Show deletions, collections, imports, commits and rules, with time and token name, newest first',
    )
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
Examples:
  waymark audit
  waymark audit --json`,
    )
    .action(async (flags: Record<string, unknown>) => {
      const client = await connect(flags)
      const { items, next_cursor } = await client.audit({ limit: SHOWN })
      if (flags.json) return printJson(items)
      if (items.length === 0) return console.log('Nothing yet.')
      for (const { at, by, action, conversation_id, details } of items) {
        console.log(`${dim(localTime(at))}  ${bold(action)}  by ${printable(by)}  ${conversation_id ?? ''}`)
        console.log(`  ${dim(printable(JSON.stringify(details)))}`)
      }
      if (next_cursor !== null) console.log(dim(`Only the newest ${SHOWN} are shown.`))
    })
}
