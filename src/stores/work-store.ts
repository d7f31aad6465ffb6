import { gunzipSync } from 'node:zlib'
import { type Clock, timestamp } from '../core/clock.ts'
import type { WorkChange, WorkStore } from '../core/work-sessions.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { accepted, stored } from './answers.ts'
import type { Engine } from './engine.ts'
import type { GroupedWrites } from './grouped-writes.ts'
import { asText } from './spill.ts'
import type {
  ReadArgument,
  ReadName,
  ReadResult,
  WriteArgument,
  WriteName,
  WriteResult,
} from './sql/operations.ts'

/** How long a rebuild is waited for. */
const REBUILD_MS = 30_000
const REBUILD_WAIT_MS = 100

export function createWorkStore(deps: { engine: Engine; clock: Clock; writes: GroupedWrites }): WorkStore {
  const { engine, clock, writes } = deps

  async function read<K extends ReadName>(name: K, argument: ReadArgument<K>) {
    return accepted<ReadResult<K>>(await stored(engine.read(name, argument), 'read'))
  }

  /** Runs that wait for the workspace are woken through the conversation's queue. */
  async function write<K extends WriteName>(name: K, argument: WriteArgument<K>, queueOf: string | null) {
    return accepted<WriteResult<K>>(await stored(writes.write(name, argument, queueOf, { queueOf })))
  }

  return {
    async workspaceOf(tenant, id) {
      return (await read('workspaceOf', { tenant, id })).workspaceId
    },
    copies: (workspaceId) => read('copiesInUse', workspaceId),
    inUse: (workspaceIds) => read('workspacesInUse', workspaceIds),
    knownAmong: (ids) => read('knownAmong', ids),
    async rows(tenant, id, { isCounted } = { isCounted: false }) {
      for (const deadline = performance.now() + REBUILD_MS; ; ) {
        try {
          return await read('workRows', { tenant, id, isCounted })
        } catch (error) {
          // Read models that are being made again: what has been done with the files is known when they are there.
          const isWorthWaiting = error instanceof WaymarkError && error.code === 'storage_failed'
          if (!isWorthWaiting || performance.now() > deadline) throw error
          await new Promise((resolve) => setTimeout(resolve, REBUILD_WAIT_MS))
        }
      }
    },
    approvedIn: (workspaceId) => read('approvedIn', workspaceId),
    doneSince: (workspaceId, since) => read('doneSince', { workspaceId, since }),
    async checkpoints(query) {
      const { items, next } = await read('listCheckpoints', query)
      return { items, next_cursor: next }
    },
    async edits(query) {
      const { items, next } = await read('listEdits', query)
      return { items: items.map(unpacked), next_cursor: next }
    },
    async filesAt(tenant, id, at) {
      const { checkpointId, edits } = await read('filesAt', { tenant, id, at })
      return { checkpointId, edits: edits.map(unpacked) }
    },
    async findCheckpoint(tenant, id, checkpointId) {
      return (await read('findCheckpoint', { tenant, id, checkpointId })).checkpointId
    },
    conversations: (workspaceId) => read('conversationsWithWork', workspaceId),
    reachable: () => read('reachableCheckpoints', null),
    expiredAmong: (ids) => read('expiredAmong', ids),
    async begin(workspaceId, change) {
      const begun = await write('beginChange', { workspaceId, change }, null)
      return 'repeated' in begun ? begun : null
    },
    async note(workspaceId, change) {
      const request = requestOf(change, [change.safety], clock.now())
      await write('noteChange', { workspaceId, change, request }, change.conversationId)
    },
    pending: (workspaceId) => read('pendingChange', workspaceId),
    async finish(workspaceId, change, { frames, answer }) {
      const now = clock.now()
      const request = requestOf(change, frames, now)
      const argument = { workspaceId, change, request, answer, now }
      return (await write('finishChange', argument, change.conversationId)).isFirst
    },
    async abandon(workspaceId, change) {
      await write('abandonChange', { workspaceId, change }, change.conversationId)
    },
    async fail(workspaceId, change, reason) {
      const { kind, conversationId, safety } = change
      const at = timestamp(clock.now())
      const failed = { kind, conversationId, safetyCheckpoint: safety?.checkpoint_id ?? null, reason, at }
      await write('failChange', { workspaceId, change, failed }, conversationId)
    },
    failed: (workspaceId) => read('failedChange', workspaceId),
  }
}

function requestOf({ tenant, conversationId }: WorkChange, frames: readonly FrameDraft[], now: number) {
  const place = { tenant, conversationId, runId: null, epoch: null, after: 0 }
  return { ...place, timestamp: timestamp(now), drafts: frames.map(asText) }
}

function unpacked<T extends { diff: Uint8Array | null }>(edit: T) {
  return { ...edit, diff: edit.diff === null ? null : gunzipSync(edit.diff).toString() }
}
