import type { Command } from 'commander'
import type { CollectionReport } from '../protocol/api/upkeep.ts'
import { isConfirmed } from './confirm.ts'
import { connect } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, count, endProgress, printJson, showProgress } from './output.ts'

interface GcFlags extends Record<string, unknown> {
  dryRun?: boolean
  now?: boolean
  yes?: boolean
  json?: boolean
}

export function gcCommand(): Command {
  return commandWith('gc', ['project', 'dataDir', 'url'])
    .description('Remove everything that no conversation reaches; the server also does this every hour')
    .option('--dry-run', 'only count what would be removed')
    .option('--now', 'ignore the retention time; deletions can no longer be undone')
    .option('--yes', 'do not ask for confirmation')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Examples:
  waymark gc --dry-run
  waymark gc
  waymark gc --now --yes`,
    )
    .action(async (flags: GcFlags) => {
      const client = await connect(flags)
      if (flags.now && !flags.dryRun && !flags.yes) await confirm()
      showProgress('collecting …')
      const report = await client
        .collect({ ...(flags.dryRun ? { dry_run: true } : {}), ...(flags.now ? { now: true } : {}) })
        .finally(endProgress)
      if (flags.json) return printJson(report)
      console.log(textOf(report))
    })
}

async function confirm(): Promise<void> {
  if (!process.stdin.isTTY) throw new CommandError('--now is irreversible; add --yes to confirm')
  if (!(await isConfirmed('Deletions can no longer be undone after this. Continue?')))
    throw new CommandError('nothing was removed')
}

function textOf(report: CollectionReport): string {
  const { events, messages, checkpoints, agent_states, blobs, conversations } = report
  const bytes = report.bytes + report.file_bytes
  const parts = [
    count(conversations, 'conversation'),
    count(messages, 'message'),
    count(events, 'event'),
    count(checkpoints, 'checkpoint'),
    count(agent_states, 'agent state'),
    count(blobs, 'blob'),
  ].filter((part) => !part.startsWith('0 '))
  if (parts.length === 0) return report.dry_run ? 'Nothing would be removed.' : 'Nothing to remove.'
  const verb = report.dry_run ? 'Would remove, with their agent states, blobs and files' : 'Removed'
  return `${bold(verb)}: ${parts.join(', ')} (${(bytes / 1024 / 1024).toFixed(1)} MB).`
}
