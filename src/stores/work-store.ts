import { gunzipSync } from 'node:zlib'
import { type Clock, timestamp } from '../core/clock.ts'
import type { WorkChange, WorkStore } from '../core/work-sessions.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { Database } from './database.ts'
import { asText } from './spill.ts'

/** Maximum wait for a projection rebuild. */
const REBUILD_MS = 30_000
const REBUILD_WAIT_MS = 100

const MAX_DIFF_BYTES = 1024 * 1024
const MOST_DIFF_BYTES = 64 * 1024 * 1024

export function createWorkStore({ database, clock }: { database: Database; clock: Clock }): WorkStore {
  return {
    async workspaceOf(tenant, id) {
      return (await database.read('workspaceOf', { tenant, id })).workspaceId
    },
    copies: (workspaceId) => database.read('copiesInUse', workspaceId),
    inUse: (workspaceIds) => database.read('workspacesInUse', workspaceIds),
    knownAmong: (ids) => database.read('knownAmong', ids),
    async rows(tenant, id, { isCounted } = { isCounted: false }) {
      for (const deadline = performance.now() + REBUILD_MS; ; ) {
        try {
          return await database.read('workRows', { tenant, id, isCounted })
        } catch (error) {
          const isRebuilding = error instanceof WaymarkError && error.code === 'rebuilding'
          if (!isRebuilding || performance.now() > deadline) throw error
          await new Promise((resolve) => setTimeout(resolve, REBUILD_WAIT_MS))
        }
      }
    },
    approvalsToCommit: (workspaceId, branch) => database.read('approvalsToCommit', { workspaceId, branch }),
    async noteCommit(commit) {
      await database.write('noteCommit', { ...commit, now: clock.now() })
    },
    approvedIn: (workspaceId) => database.read('approvedIn', workspaceId),
    doneSince: (workspaceId, since) => database.read('doneSince', { workspaceId, since }),
    async checkpoints(query) {
      const { items, next } = await database.read('listCheckpoints', query)
      return { items, next_cursor: next }
    },
    async edits(query) {
      const { items, next } = await database.read('listEdits', query)
      return { items: items.map(unpacked), next_cursor: next }
    },
    checkpointEvents: (workspaceId) => database.read('checkpointEvents', workspaceId),
    async creations(workspaceId, since, until) {
      return unpackedWithin(await database.read('creations', { workspaceId, since, until }))
    },
    async editEvents(workspaceId, paths) {
      return unpackedWithin(await database.read('editEvents', { workspaceId, paths }))
    },
    editSources: (edits) =>
      database.read(
        'editSources',
        edits.map(({ segment, eventNumber, runId, toolCallId }) => ({
          segment,
          eventNumber,
          runId,
          toolCallId,
        })),
      ),
    async filesAt(tenant, id, at) {
      const { checkpointId, edits } = await database.read('filesAt', { tenant, id, at })
      return { checkpointId, edits: edits.map(unpacked) }
    },
    async findCheckpoint(tenant, id, checkpointId) {
      return (await database.read('findCheckpoint', { tenant, id, checkpointId })).checkpointId
    },
    conversations: (workspaceId) => database.read('conversationsWithWork', workspaceId),
    reachable: () => database.read('reachableCheckpoints', null),
    expiredAmong: (ids) => database.read('expiredAmong', ids),
    async begin(workspaceId, change) {
      const begun = await database.write('beginChange', { workspaceId, change })
      return 'repeated' in begun ? begun : null
    },
    async note(workspaceId, change) {
      const request = requestOf(change, [change.safety], clock.now())
      await database.write('noteChange', { workspaceId, change, request })
    },
    pending: (workspaceId) => database.read('pendingChange', workspaceId),
    async finish(workspaceId, change, { frames, answer }) {
      const now = clock.now()
      const request = requestOf(change, frames, now)
      const argument = { workspaceId, change, request, answer, now }
      return (await database.write('finishChange', argument)).isFirst
    },
    async abandon(workspaceId, change) {
      await database.write('abandonChange', { workspaceId, change })
    },
    async fail(workspaceId, change, reason) {
      const { kind, conversationId, safety } = change
      const at = timestamp(clock.now())
      const failed = { kind, conversationId, safetyCheckpoint: safety?.checkpoint_id ?? null, reason, at }
      await database.write('failChange', { workspaceId, change, failed })
    },
    failed: (workspaceId) => database.read('failedChange', workspaceId),
  }
}

function requestOf({ tenant, conversationId }: WorkChange, frames: readonly FrameDraft[], now: number) {
  const place = { tenant, conversationId, runId: null, epoch: null, after: 0 }
  return { ...place, timestamp: timestamp(now), drafts: frames.map(asText) }
}

/** Unpacks diffs as long as they are small, alone and together; the others are null, as if they were not known. */
function unpackedWithin<T extends { diff: Uint8Array | null }>(edits: readonly T[]) {
  let room = MOST_DIFF_BYTES
  return edits.map((edit) => {
    const diff = edit.diff === null ? null : unpackedDiff(edit.diff, Math.min(room, MAX_DIFF_BYTES))
    room -= diff?.length ?? 0
    return { ...edit, diff: diff === null ? null : diff.toString() }
  })
}

function unpackedDiff(packed: Uint8Array, maxOutputLength: number): Buffer | null {
  if (maxOutputLength <= 0) return null
  try {
    return gunzipSync(packed, { maxOutputLength })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return null
    throw error
  }
}

function unpacked<T extends { diff: Uint8Array | null }>(edit: T) {
  return { ...edit, diff: edit.diff === null ? null : gunzipSync(edit.diff).toString() }
}
