import type { Command } from 'commander'
import { checkpointId, collect, projectPath, SHORT_ID } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, count, dim, printable, printJson, removed } from './output.ts'

interface RestoreFlags extends Record<string, unknown> {
  conversation?: string
  path?: string[]
  dryRun?: boolean
  json?: boolean
}

interface Report {
  restored: string[]
  deleted: string[]
  skipped: { path: string; reason: string }[]
  rescued: readonly { path: string; file: string }[]
}

export function restoreCommand(): Command {
  return commandWith('restore', ['project', 'dataDir', 'url'])
    .description('Restore the files to a checkpoint; the current files are kept as another checkpoint')
    .argument('<checkpoint>', 'checkpoint id or prefix', checkpointId)
    .option('-c, --conversation <id>', 'conversation id (default: the most recently changed)')
    .option('--path <path>', 'only this file or folder; repeatable', collect)
    .option('--dry-run', 'only show what would change')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Files that are in no checkpoint are never changed. Exits with 1 if a file was skipped.

Examples:
  waymark restore 3f2a91c --dry-run
  waymark restore 3f2a91c
  waymark restore 3f2a91c --path src/main.ts --path docs`,
    )
    .action(async (checkpoint: string, flags: RestoreFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, flags.conversation)
      const done = await client.restore(id, {
        checkpoint_id: checkpoint,
        ...(flags.path ? { paths: flags.path.map((path) => projectPath(flags, path)) } : {}),
        ...(flags.dryRun ? { dry_run: true } : {}),
      })
      if (done.skipped.length > 0) process.exitCode = 1
      if (flags.json) return printJson(done)
      printReport(done, flags.dryRun ? 'would be' : null)
      const { left_out } = await client.checkpoint(id, done.restored_to)
      if (left_out.length > 0) {
        console.log(
          dim(
            `${count(left_out.length, 'path')} not in the checkpoint, left unchanged: ${shownPaths(left_out)}`,
          ),
        )
      }
      const isChanged = done.restored.length + done.deleted.length > 0
      if (done.safety_checkpoint !== null && isChanged)
        console.log(undoHint(done.safety_checkpoint, id, flags))
    })
}

const SHOWN_PATHS = 5

function shownPaths(leftOut: readonly { path: string }[]): string {
  const shown = leftOut.slice(0, SHOWN_PATHS).map(({ path }) => printable(path))
  return `${shown.join(', ')}${leftOut.length > SHOWN_PATHS ? ' …' : ''}`
}

/** The undo command, with the flags it needs to work from any folder. */
export function undoHint(checkpoint: string, conversation: string, flags: Record<string, unknown>): string {
  const where = ['project', 'dataDir', 'url'].flatMap((name) =>
    typeof flags[name] === 'string' ? [`--${name === 'dataDir' ? 'data-dir' : name} ${flags[name]}`] : [],
  )
  return dim(
    `To undo: waymark restore ${[checkpoint.slice(0, SHORT_ID), `-c ${conversation}`, ...where].join(' ')}`,
  )
}

/** Prints the restored, deleted, skipped and rescued files; `would` is set for a dry run. */
export function printReport({ restored, deleted, skipped, rescued }: Report, would: string | null): void {
  for (const path of restored) console.log(`restored  ${printable(path)}`)
  for (const path of deleted) console.log(`deleted   ${printable(path)}`)
  for (const { path, reason } of skipped) {
    console.log(`${removed('skipped')}   ${printable(path)}: ${printable(reason)}`)
  }
  for (const { path, file } of rescued) {
    console.log(
      `${removed('rescued')}   ${printable(path)}: a program was writing to it; saved in the data folder as ${printable(file)}`,
    )
  }
  if (restored.length + deleted.length + skipped.length === 0) {
    return console.log(bold('Nothing to restore: the files already match.'))
  }
  const verb = would ?? (restored.length === 1 ? 'was' : 'were')
  const skippedText = skipped.length === 0 ? '' : `, ${skipped.length} skipped`
  console.log(
    bold(`${count(restored.length, 'file')} ${verb} restored, ${deleted.length} deleted${skippedText}.`),
  )
}
