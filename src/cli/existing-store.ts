import { hasStore, openStore, type Store } from '../server/store.ts'
import { assertTrusted, configAbove } from './options.ts'
import { CommandError } from './output.ts'

/** The project's store, which must be there: checking one that was made just now would say nothing. */
export async function openExisting(flags: Record<string, unknown>): Promise<Store> {
  const config = configAbove(flags)
  await assertTrusted(config)
  if (!hasStore(config)) {
    throw new CommandError(`there is no ledger in ${config.dataDir}; \`waymark serve\` makes one`)
  }
  return await openStore(config)
}
