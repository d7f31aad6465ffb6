import type { Command } from 'commander'
import type { DiffView } from '../protocol/api/work.ts'
import { checkpointId, projectPath } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { added, bold, dim, printable, printJson, removed } from './output.ts'

interface DiffFlags extends Record<string, unknown> {
  conversation?: string
  path?: string
  stat?: boolean
  json?: boolean
}

type File = DiffView['files'][number]

export function diffCommand(): Command {
  return commandWith('diff', ['project', 'dataDir', 'url'])
    .description('Show file changes between two checkpoints, or since one')
    .argument('[from]', 'checkpoint id (default: the last approval)', checkpointId)
    .argument('[to]', 'checkpoint id (default: the current files)', checkpointId)
    .option('-c, --conversation <id>', 'conversation id (default: the most recently changed)')
    .option('--path <path>', 'only this file or folder')
    .option('--stat', 'only file names and line counts')
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
Examples:
  waymark diff                        changes not approved yet
  waymark diff 3f2a91c --stat         since this checkpoint
  waymark diff 3f2a91c 90b1c44 --path src/main.ts`,
    )
    .action(async (from: string | undefined, to: string | undefined, flags: DiffFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, flags.conversation)
      const path = flags.path === undefined ? undefined : projectPath(flags, flags.path)
      const view = await client.diff(id, { from, to, path })
      if (flags.json) return printJson(view)
      if (view.files.length === 0) return console.log('No changes.')
      for (const file of view.files) {
        if (flags.stat) console.log(statOf(file))
        else printFileDiff(file)
      }
    })
}

export function printFileDiff(file: File): void {
  if (file.left_out !== undefined) console.log(printable(`${file.path}: ${leftOutText(file.left_out)}`))
  else if (file.diff === null) console.log(withoutDiff(file))
  // Exact bytes for pipes.
  else if (!process.stdout.isTTY) process.stdout.write(file.diff)
  else for (const line of file.diff.replace(/\n$/, '').split('\n')) console.log(coloured(line))
}

function leftOutText(reason: string): string {
  return `no longer in checkpoints (${reason}); the file still exists`
}

export function statOf(file: Omit<File, 'diff'>): string {
  if (file.left_out !== undefined)
    return `left out  ${printable(file.path)}  ${dim(printable(leftOutText(file.left_out)))}`
  const lines = file.is_too_large
    ? dim('too large to compare')
    : file.is_binary
      ? dim('binary')
      : `${added(`+${file.additions}`)} ${removed(`-${file.deletions}`)}`
  return `${file.status.padEnd(8)}  ${printable(file.path)}  ${lines}`
}

function withoutDiff({ path, status, is_binary }: File): string {
  const [a, b] = [
    status === 'added' ? '/dev/null' : `a/${path}`,
    status === 'deleted' ? '/dev/null' : `b/${path}`,
  ]
  return printable(`${is_binary ? 'Binary files' : 'Files too large to compare'} ${a} and ${b} differ`)
}

function coloured(line: string): string {
  const text = printable(line.replace(/\r$/, '^M'))
  if (line.startsWith('diff --git')) return bold(text)
  if (/^(index |--- |\+\+\+ |new file|deleted file|old mode|new mode)/.test(line)) return dim(text)
  if (line.startsWith('+')) return added(text)
  return line.startsWith('-') ? removed(text) : text
}
