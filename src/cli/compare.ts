import type { Command } from 'commander'
import type { Comparison } from '../protocol/api/lines.ts'
import { SHORT_ID } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { printFileDiff, statOf } from './diff.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, dim, printable, printJson } from './output.ts'

interface CompareFlags extends Record<string, unknown> {
  diff?: boolean
  json?: boolean
}

const SHOWN = 50
const LINE = 100

export function compareCommand(): Command {
  return commandWith('compare', ['project', 'dataDir', 'url'])
    .description('Show where two conversations diverge, their messages since, and how their files differ')
    .argument('<other>', 'the id of a conversation')
    .argument('[conversation]', 'conversation to compare with (default: the most recently changed)')
    .option('--diff', 'include line-by-line file diffs')
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
Compares the current files of sides that have their own working copy, otherwise those of the last checkpoint.

Examples:
  waymark compare conv_01m7ge5wdas4rvsp14pjg3nkaf
  waymark compare conv_01m7ge5wdas4rvsp14pjg3nkaf --diff`,
    )
    .action(async (other: string, conversation: string | undefined, flags: CompareFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, conversation)
      if (other === id) throw new CommandError('both ids name the same conversation; give a second one')
      const compared = await client.compare(other, id, { limit: SHOWN, diff: flags.diff ?? false })
      if (flags.json) return printJson(compared)
      print(compared, flags.diff ?? false)
    })
}

function print({ parted_after, from, to, files }: Comparison, isDetailed: boolean): void {
  console.log(
    parted_after === 0 ? bold('They share no history.') : bold(`They diverge after event ${parted_after}.`),
  )
  for (const side of [from, to]) printSide(side)
  if (files === null)
    return console.log(dim('\nFiles not compared: one side has no checkpoint on this server.'))
  if (files.length === 0) return console.log('\nFiles are identical.')
  console.log(`\n${bold('files')}`)
  for (const file of files) {
    if (isDetailed) printFileDiff(file)
    else console.log(statOf(file))
  }
}

function printSide({ conversation_id, checkpoint_id, messages, has_more }: Comparison['from']): void {
  const checkpoint = checkpoint_id === null ? '' : `  checkpoint ${checkpoint_id.slice(0, SHORT_ID)}`
  console.log(`\n${bold(conversation_id)}${dim(checkpoint)}`)
  if (messages.length === 0) console.log(dim('  no messages since'))
  for (const { role, content, event_number } of messages) {
    const line = content.replaceAll(/\s+/g, ' ').trim()
    const shown = line.length > LINE ? `${line.slice(0, LINE - 1)}…` : line
    console.log(
      `  ${dim(String(event_number).padStart(5))}  ${role === 'user' ? 'you  ' : 'agent'}  ${printable(shown)}`,
    )
  }
  if (has_more) console.log(dim('         …'))
}
