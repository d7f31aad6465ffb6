import type { Command } from 'commander'
import { verifyLedger } from '../server/offline.ts'
import { openExisting } from './existing-store.ts'
import { commandWith, storeSettings } from './options.ts'
import { count, endProgress, printJson, showProgress } from './output.ts'

export function verifyCommand(): Command {
  return commandWith('verify', storeSettings)
    .description('Recompute all digests of the ledger and the blobs, and check the ledger rules')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Works with or without a running server. Exits with 1 if it finds a flaw.

Examples:
  waymark verify
  waymark verify --project ../shop --json`,
    )
    .action(verify)
}

async function verify(flags: Record<string, unknown>): Promise<void> {
  const store = await openExisting(flags)
  try {
    const result = await verifyLedger(store.upkeep, (soFar) =>
      showProgress(`${count(soFar.segments, 'segment')}, ${count(soFar.events, 'event')} …`),
    )
    endProgress()
    const wrong = result.flaws.length + result.damaged.length
    if (wrong > 0) process.exitCode = 1
    if (flags.json) return printJson(result)
    for (const { conversationId, segmentId, seq, flaw } of result.flaws) {
      console.log(`${conversationId} ${segmentId} event ${seq}: ${flaw}`)
    }
    for (const { key, flaw } of result.damaged) console.log(`${key}: ${flaw}`)
    const verdict = wrong === 0 ? 'clean' : count(wrong, 'flaw')
    const parts = [
      count(result.segments, 'segment'),
      count(result.events, 'event'),
      count(result.contents, 'blob'),
    ]
    console.log(`${parts.join(', ')}: ${verdict}`)
  } finally {
    await store.close()
  }
}
