import type { Command } from 'commander'
import { examineWorkspace, sandboxHere, watchAgain } from '../main.ts'
import { openExisting } from './existing-store.ts'
import { commandWith, configAbove } from './options.ts'
import { bold, count, endProgress, printJson, removed, showProgress } from './output.ts'

interface DoctorFlags extends Record<string, unknown> {
  watchAgain?: boolean
  json?: boolean
}

export function doctorCommand(): Command {
  return commandWith('doctor', ['project', 'dataDir', 'databaseUrl', 'workspaceId'])
    .description('Check the checkpoints of the files, and tell how much room everything takes')
    .option('--watch-again', 'watch the project again after a change was missed')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Works with or without a running server. Ends with 1 if anything is wrong. \`waymark verify\` checks the ledger.

Examples:
  waymark doctor
  waymark doctor --json`,
    )
    .action(doctor)
}

async function doctor(flags: DoctorFlags): Promise<void> {
  const store = await openExisting(flags)
  try {
    const config = configAbove(flags)
    if (flags.watchAgain) watchAgain(config.dataDir)
    const result = await examineWorkspace(config, store, showProgress)
    endProgress()
    if (result.problems.length > 0) process.exitCode = 1
    if (flags.json) {
      const { sandbox, why } = await sandboxHere(config)
      return printJson({ ...result, sandbox: { name: sandbox?.name ?? null, why } })
    }
    for (const [what, bytes] of Object.entries(result.sizes)) {
      console.log(`${what.padEnd(12)} ${inMegabytes(bytes).padStart(10)}`)
    }
    console.log(
      `${count(result.conversations, 'conversation')}, ${count(result.checkpoints, 'checkpoint')} in ${count(result.packs, 'pack')}`,
    )
    console.log(`sandbox      ${sandboxAdvice(await sandboxHere(config))}`)
    for (const note of result.notes) console.log(`note     ${note}`)
    for (const problem of result.problems) console.log(`${removed('problem')}  ${problem}`)
    console.log(
      bold(
        result.problems.length === 0 ? 'Nothing is wrong.' : `${count(result.problems.length, 'problem')}.`,
      ),
    )
  } finally {
    await store.close()
  }
}

/** Where commands run, and what to install if that is nowhere safe. */
function sandboxAdvice({ sandbox, why }: Awaited<ReturnType<typeof sandboxHere>>): string {
  if (sandbox) return `${sandbox.name} works: commands run in it`
  const install =
    process.platform === 'linux'
      ? '; install bubblewrap (apt install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap)'
      : ''
  return `none: ${why}${install}`
}

function inMegabytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`
}
