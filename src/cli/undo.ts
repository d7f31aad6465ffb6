import { type Command, InvalidArgumentError } from 'commander'
import type { OperationView, Undone } from '../protocol/api/operations.ts'
import { connect } from './connect.ts'
import { printCleared } from './delete.ts'
import { commandWith } from './options.ts'
import { bold, dim, localTime, printable, printJson } from './output.ts'

interface UndoFlags extends Record<string, unknown> {
  conversation?: string
  json?: boolean
}

export function undoCommand(): Command {
  return moving(
    'undo',
    'Undo the last operation: a deletion, restore, reset, approval, adoption, fork, rename or setting',
  )
    .addHelpText(
      'after',
      `
Files that the operation changed return to their state before it; the current files are saved as a checkpoint
first. Messages and answers are not operations: delete the message, or restore the files to a checkpoint.

Examples:
  waymark undo
  waymark undo 12                     this operation; \`waymark ops\` lists them
  waymark undo -c conv_01m7…          the last one in this conversation`,
    )
    .action(async (no: number | undefined, flags: UndoFlags) => {
      const client = await connect(flags)
      show(await client.undo(bodyOf(no, flags)), 'Undone', flags)
    })
}

export function redoCommand(): Command {
  return moving('redo', 'Redo the last undone operation')
    .addHelpText(
      'after',
      `
Without a number, redo does nothing if a new operation has followed the undo.

Examples:
  waymark redo
  waymark redo 12                     this operation; \`waymark ops\` lists them`,
    )
    .action(async (no: number | undefined, flags: UndoFlags) => {
      const client = await connect(flags)
      show(await client.redo(bodyOf(no, flags)), 'Redone', flags)
    })
}

export function opsCommand(): Command {
  return commandWith('ops', ['project', 'dataDir', 'url'])
    .description('List operations, newest first, and whether they can be undone')
    .option('-c, --conversation <id>', 'only in this conversation')
    .option('--limit <count>', 'how many', Number, 20)
    .option('--json', 'print as JSON')
    .action(async (flags: UndoFlags & { limit: number }) => {
      const client = await connect(flags)
      const of = flags.conversation === undefined ? {} : { conversation_id: flags.conversation }
      const { items } = await client.operations({ limit: flags.limit, ...of })
      if (flags.json) return printJson(items)
      if (items.length === 0) console.log('No operations.')
      for (const one of items) console.log(lineOf(one))
    })
}

function moving(name: string, about: string): Command {
  return commandWith(name, ['project', 'dataDir', 'url'])
    .description(about)
    .argument(
      '[operation]',
      `number of the operation (default: the ${name === 'undo' ? 'last one' : 'one undone last'})`,
      numberOf,
    )
    .option('-c, --conversation <id>', 'only operations in this conversation')
    .option('--json', 'print as JSON')
}

function numberOf(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new InvalidArgumentError('must be the number of an operation')
  return Number(text)
}

function bodyOf(operation: number | undefined, { conversation }: UndoFlags) {
  return {
    ...(operation === undefined ? {} : { operation }),
    ...(conversation === undefined ? {} : { conversation_id: conversation }),
  }
}

function show(done: Undone, what: string, { json }: UndoFlags): void {
  if (json) return printJson(done)
  printCleared(done.cleared)
  for (const { path, reason } of done.skipped)
    console.log(`skipped   ${printable(path)}: ${printable(reason)}`)
  console.log(`${bold(`${what}:`)} ${lineOf(done)}`)
}

function lineOf({ operation, at, by, conversation_id, summary, is_undone, problem }: OperationView): string {
  const state = is_undone ? ' (undone)' : ''
  const why = problem === null ? '' : `; it can't be ${is_undone ? 'redone' : 'undone'}: ${problem}`
  return `${operation}  ${printable(summary)}${state}${printable(why)}  ${dim(`${localTime(at)}  ${printable(by)}  ${conversation_id}`)}`
}
