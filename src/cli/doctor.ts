import type { Command } from 'commander'
import { examineWorkspace, sandboxHere, watchAgain } from '../server/offline.ts'
import { openExisting } from './existing-store.ts'
import { commandWith, configAbove, storeSettings } from './options.ts'
import { bold, count, endProgress, printJson, removed, showProgress } from './output.ts'

interface DoctorFlags extends Record<string, unknown> {
  watchAgain?: boolean
  json?: boolean
}

export function doctorCommand(): Command {
  return commandWith('doctor', [...storeSettings, 'workspaceId'])
    .description('Check the checkpoints and the sandbox, and show disk usage')
    .option('--watch-again', 'turn file watching back on after it missed a change')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Works with or without a running server. Exits with 1 if it finds a problem. \`waymark verify\` checks the ledger.

Examples:
  waymark doctor
  waymark doctor --json`,
    )
    .action(doctor)
}

async function doctor(flags: DoctorFlags): Promise<void> {
  const config = configAbove(flags)
  const found = await sandboxHere(config)
  // Print this before opening the ledger: new users run doctor before they have one.
  if (!flags.json) console.log(`sandbox      ${sandboxAdvice(found)}`)
  const store = await openExisting(flags)
  try {
    if (flags.watchAgain) watchAgain(config.dataDir)
    const result = await examineWorkspace(config, store, showProgress)
    endProgress()
    if (result.problems.length > 0) process.exitCode = 1
    if (flags.json) {
      return printJson({ ...result, sandbox: { name: found.sandbox?.name ?? null, why: found.why } })
    }
    for (const [what, bytes] of Object.entries(result.sizes)) {
      console.log(`${what.padEnd(12)} ${inMegabytes(bytes).padStart(10)}`)
    }
    console.log(
      `${count(result.conversations, 'conversation')}, ${count(result.checkpoints, 'checkpoint')} in ${count(result.packs, 'pack')}`,
    )
    for (const note of result.notes) console.log(`note     ${note}`)
    for (const problem of result.problems) console.log(`${removed('problem')}  ${problem}`)
    console.log(
      bold(
        result.problems.length === 0 ? 'No problems found.' : `${count(result.problems.length, 'problem')}.`,
      ),
    )
  } finally {
    await store.close()
  }
}

/** Names the sandbox, or what to install to get one. */
function sandboxAdvice({ sandbox, why }: Awaited<ReturnType<typeof sandboxHere>>): string {
  if (sandbox) return `${sandbox.name} works: commands run in it`
  const install =
    process.platform === 'linux'
      ? '; install bubblewrap (apt install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap)'
      : ''
  return `none, so commands run with your permissions: ${why}${install}`
}

function inMegabytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`
}
