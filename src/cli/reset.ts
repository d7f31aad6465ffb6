import type { Command } from 'commander'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { printJson } from './output.ts'
import { printReport, undoHint } from './restore.ts'

interface ResetFlags extends Record<string, unknown> {
  json?: boolean
  dryRun?: boolean
  includeOthers?: boolean
}

export function resetCommand(): Command {
  return commandWith('reset', ['project', 'dataDir', 'url'])
    .description('Reset the files to the last approval; the discarded changes are kept as a checkpoint')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('--dry-run', 'only show what would change')
    .option('--include-others', 'also reset changes made by other conversations')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Files that another conversation has changed since the last approval are skipped and listed. Exits with 1 if a file was
skipped.

Examples:
  waymark reset --dry-run             preview
  waymark reset`,
    )
    .action(async (conversation: string | undefined, flags: ResetFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, conversation)
      const done = await client.reset(id, {
        ...(flags.dryRun ? { dry_run: true } : {}),
        ...(flags.includeOthers ? { include_others: true } : {}),
      })
      if (done.skipped.length > 0) process.exitCode = 1
      if (flags.json) return printJson(done)
      printReport(done, flags.dryRun ? 'would be' : null)
      if (done.pre_reset_checkpoint === null) return
      console.log(`${id} is now in ${done.new_session}.`)
      console.log(undoHint(done.pre_reset_checkpoint, id, flags))
    })
}
