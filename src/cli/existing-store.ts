import { hasStore, openStore, type Store } from '../server/store.ts'
import { assertTrusted, configAbove } from './options.ts'
import { CommandError } from './output.ts'

/** Opens the project's store. It must exist, because checking a newly created one is pointless. */
export async function openExisting(flags: Record<string, unknown>): Promise<Store> {
  const config = configAbove(flags)
  await assertTrusted(config)
  if (!hasStore(config)) {
    throw new CommandError(`no ledger found in ${config.dataDir}; create one with: waymark serve`)
  }
  return await openStore(config)
}
