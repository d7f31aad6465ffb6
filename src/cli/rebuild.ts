import type { Command } from 'commander'
import { rebuildProjections } from '../server/offline.ts'
import { openExisting } from './existing-store.ts'
import { commandWith, storeSettings } from './options.ts'
import { count, endProgress, printJson, showProgress } from './output.ts'

export function rebuildCommand(): Command {
  return commandWith('rebuild', storeSettings)
    .description('Drop the projections and rebuild them from the ledger')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Works with or without a running server. If interrupted, the next server start resumes it.

Examples:
  waymark rebuild
  waymark rebuild --project ../shop`,
    )
    .action(rebuild)
}

async function rebuild(flags: Record<string, unknown>): Promise<void> {
  const store = await openExisting(flags)
  try {
    const events = await rebuildProjections(store.upkeep, (soFar) =>
      showProgress(`${count(soFar, 'event')} …`),
    )
    endProgress()
    if (flags.json) return printJson({ events })
    console.log(`rebuilt from ${count(events, 'event')}`)
  } finally {
    await store.close()
  }
}
