import type { Command } from 'commander'
import { visibleText } from '../protocol/visible-text.ts'
import { connect } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, dim, localTime, printable, printJson } from './output.ts'

export function rulesCommand(): Command {
  return commandWith('rules', ['project', 'dataDir', 'url'])
    .description('List or remove rules: calls that run without approval')
    .option('--remove <rule>', 'remove this rule; the call needs approval again')
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
Answering "always" to an approval creates a rule: for exactly that call, for commands with the same first words, or for
every call of the tool; in this project, or in one conversation.

Examples:
  waymark rules
  waymark rules --remove rule_01m7ge5wdas4rvsp14pjg3nkaf`,
    )
    .action(async (flags: Record<string, unknown>) => {
      const client = await connect(flags)
      if (typeof flags.remove === 'string') {
        await client.removeRule(flags.remove)
        return console.log(`Removed ${flags.remove}.`)
      }
      const { items } = await client.rules()
      if (flags.json) return printJson(items)
      if (items.length === 0) return console.log('No rules.')
      for (const { rule_id, tool_name, match, subject, conversation_id, grant, by, created_at } of items) {
        const how = [
          ...(match === 'tool' ? ['any arguments'] : match === 'prefix' ? ['commands that begin with'] : []),
          ...(conversation_id === null ? [] : [`only in ${conversation_id}`]),
          ...(grant.outside ? ['outside the sandbox'] : []),
          ...(grant.network ? ['with network access'] : []),
        ]
        console.log([bold(rule_id), printable(tool_name), ...how].join('  '))
        if (subject !== '') console.log(`  ${visibleText(subject).split('\n').join('\n  ')}`)
        console.log(dim(`  by ${printable(by)}, ${localTime(created_at)}`))
      }
    })
}
