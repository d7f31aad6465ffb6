import { resolve } from 'node:path'
import type { Command } from 'commander'
import { BackupRefused, makeBackup, restoreBackup } from '../server/backup.ts'
import { hasStore } from '../server/store.ts'
import { trustDataDir } from '../trust.ts'
import { assertTrusted, commandWith, configAbove, storeSettings } from './options.ts'
import { bold, CommandError, count, endProgress, printJson, showProgress } from './output.ts'

interface BackupFlags extends Record<string, unknown> {
  json?: boolean
}

export function backupCommand(): Command {
  return commandWith('backup', storeSettings)
    .description('Back up all server data to a folder, and verify the copy')
    .argument('<folder>', 'a folder that is empty or does not exist')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Works with or without a running server. The backup is consistent: the database at one point in time, with every blob and
every checkpoint that it references. It does not include the forks' working copies or the search index; both are rebuilt.

Examples:
  waymark backup ../backups/monday
  waymark restore-backup ../backups/monday --data-dir ../restored`,
    )
    .action(async (folder: string, flags: BackupFlags) => {
      const config = configAbove(flags)
      await assertTrusted(config)
      if (!hasStore(config)) throw new CommandError(`no ledger found in ${config.dataDir}`)
      const done = await refusing(makeBackup(config, resolve(folder), showProgress))
      endProgress()
      const { flaws, damaged } = done.verified
      if (flaws.length + damaged.length > 0) process.exitCode = 1
      if (flags.json) return printJson(done)
      for (const { conversationId, seq, flaw } of flaws)
        console.log(`${conversationId} event ${seq}: ${flaw}`)
      for (const { key, flaw } of damaged) console.log(`${key}: ${flaw}`)
      const size = `${(done.bytes / 1024 / 1024).toFixed(1)} MB in ${count(done.files, 'file')}, and the database`
      console.log(bold(`${done.folder}: ${size}.`))
    })
}

export function restoreBackupCommand(): Command {
  return commandWith('restore-backup', storeSettings)
    .description('Restore a backup into an empty data folder or an empty database')
    .argument('<folder>', 'a folder that `waymark backup` wrote')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Stop the server first. Clients that have read events missing from the backup discard them and continue. A run that was
active during the backup is shown as incomplete. The project's files are not changed.

Examples:
  waymark restore-backup ../backups/monday --data-dir ../restored
  waymark serve --data-dir ../restored`,
    )
    .action(async (folder: string, flags: BackupFlags) => {
      const config = configAbove(flags)
      const done = await refusing(restoreBackup(config, resolve(folder), showProgress))
      // The person has just made this data folder, from a backup that they named.
      await trustDataDir(config)
      endProgress()
      const { flaws, damaged, events } = done.verified
      if (flaws.length + damaged.length > 0) process.exitCode = 1
      if (flags.json) return printJson(done)
      for (const { key, flaw } of damaged) console.log(`${key}: ${flaw}`)
      const verdict =
        flaws.length + damaged.length === 0 ? 'clean' : count(flaws.length + damaged.length, 'flaw')
      console.log(`${count(done.conversations, 'conversation')}, ${count(events, 'event')}: ${verdict}`)
      console.log(bold(`Restored to ${config.dataDir}, as of ${done.note.made_at}.`))
    })
}

async function refusing<T>(work: Promise<T>): Promise<T> {
  return await work.catch((error: unknown) => {
    endProgress()
    throw error instanceof BackupRefused ? new CommandError(error.message) : error
  })
}
