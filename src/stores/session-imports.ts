import type { BlobStore } from '../core/blobs.ts'
import type { AppendImported } from '../core/session-imports.ts'
import type { Database } from './database.ts'
import { asText, isLarge, spill } from './spill.ts'
import type { AppendRequest } from './sql/lines/append.ts'
import { IMPORT_EPOCH } from './sql/transfer/import-session.ts'

/** Appends the runs of sessions that other agents have stored. */
export function createAppendImported(deps: { database: Database; blobs: BlobStore }): AppendImported {
  const { database, blobs } = deps
  return async ({ tenant, conversationId, after, parts }) => {
    const frames = new Map<string, number>()
    const requests: AppendRequest[] = []
    for (const { runId, timestamp, frames: drafts } of parts) {
      const texts = drafts.map(asText)
      const stored = await Promise.all(
        texts.map(async (draft) => (isLarge(draft) ? await spill(blobs, draft) : draft)),
      )
      const before = runId === null ? 0 : (frames.get(runId) ?? 0)
      if (runId !== null) frames.set(runId, before + stored.length)
      const hold = runId === null ? { runId, epoch: null } : { runId, epoch: IMPORT_EPOCH }
      requests.push({ tenant, conversationId, ...hold, after: before, timestamp, drafts: stored })
    }
    return await database.write('importSession', { tenant, conversationId, after, requests })
  }
}
