import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Ledger } from '../../src/core/ledger.ts'
import type { FrameDraft } from '../../src/protocol/frames.ts'
import { openStore } from '../../src/server/store.ts'

export async function temporaryFolder(): Promise<{ folder: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'waymark-bench-'))
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) }
}

export async function withLedger<T>(use: (ledger: Ledger) => Promise<T>): Promise<T> {
  const { folder, remove } = await temporaryFolder()
  const store = await openStore({ dataDir: folder, databaseUrl: null, objectStorage: null })
  try {
    return await use(store.ledger)
  } finally {
    await store.close()
    await remove()
  }
}

/** One word of an answer; its sealed frame takes about 300 bytes. */
export function wordFrame(text = ' word'): FrameDraft<'message.delta'> {
  return {
    kind: 'message.delta',
    response_id: 'resp_1',
    output_index: 0,
    item_id: 'msg_1',
    content_index: 0,
    delta: text,
  }
}
