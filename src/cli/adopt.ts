import type { Command } from 'commander'
import { connect } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, printJson } from './output.ts'
import { printReport, undoHint } from './restore.ts'

interface AdoptFlags extends Record<string, unknown> {
  into?: string
  preferFork?: boolean
  dryRun?: boolean
  json?: boolean
}

export function adoptCommand(): Command {
  return commandWith('adopt', ['project', 'dataDir', 'url'])
    .description("Merge the files of a fork's own working copy into the project")
    .argument('<fork>', 'conversation id of the fork')
    .option('--into <id>', 'the conversation whose files are changed (default: the parent of the fork)')
    .option('--prefer-fork', "on a conflict, take the fork's version of the file")
    .option('--dry-run', 'only show what would change')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
The merge starts from the files that both had when the fork was made or last adopted. A file that both sides have changed in
different ways is a conflict: it stays as it is and is listed as skipped, unless you pass --prefer-fork. The current files are
kept as another checkpoint. Exits with 1 if a file was skipped. Needs git 2.38 or later.

Examples:
  waymark adopt conv_01JZ… --dry-run
  waymark adopt conv_01JZ…
  waymark adopt conv_01JZ… --prefer-fork`,
    )
    .action(async (fork: string, flags: AdoptFlags) => {
      const client = await connect(flags)
      const into = flags.into ?? (await client.conversation(fork)).parent?.conversation_id
      if (into === undefined)
        throw new CommandError('This conversation is not a fork. Name the target with --into.')
      const done = await client.adopt(into, {
        from: fork,
        ...(flags.preferFork ? { prefer_other: true } : {}),
        ...(flags.dryRun ? { dry_run: true } : {}),
      })
      if (done.skipped.length > 0) process.exitCode = 1
      if (flags.json) return printJson(done)
      if (done.restored.length + done.deleted.length + done.skipped.length === 0)
        return console.log(bold('Nothing to adopt: the files already match.'))
      printReport(done, flags.dryRun ? 'would be' : null)
      if (done.safety_checkpoint !== null) console.log(undoHint(done.safety_checkpoint, into, flags))
    })
}
