import type { BlobStore } from '../core/blobs.ts'
import type { Clock } from '../core/clock.ts'
import { type CollectCommand, type Collecting, type CollectionStore, HOUR_MS } from '../core/collection.ts'
import type { Log } from '../core/log.ts'
import type { CollectionReport } from '../protocol/api/upkeep.ts'
import { WaymarkError } from '../protocol/errors.ts'

/** A writer refers to a blob within this time after putting it, or never. */
const GRACE_MS = 10 * 60 * 1000
/** How long the answer to an idempotency key is kept, whatever the retention time. */
const KEYS_MS = 24 * HOUR_MS
const SEGMENTS_AT_ONCE = 1000
const BLOBS_AT_ONCE = 500
/** For dry runs: they remove nothing, so a second page would be the same as the first. */
const ALL_SEGMENTS = 1_000_000

export interface CollectorDependencies {
  store: CollectionStore
  blobs: BlobStore
  /** False if another database may refer to the same blobs. Default: true. */
  ownsBlobs?: () => Promise<boolean>
  clock: Clock
  /** How long a deletion can be undone. */
  retentionMs: number
  /** Removes files that only removed checkpoints had; returns the number of bytes. */
  dropFiles(): Promise<number>
  log: Log
  /** Blocks backups and other collections; null when one is running. The system releases it if this process dies. */
  hold?: () => (() => void) | null
  onCollected?: (report: CollectionReport, seconds: number) => void
  graceMs?: number
}

export interface Collector extends Collecting {
  /** Collects at this interval. */
  start(everyMs: number): void
  stop(): Promise<void>
}

export function createCollector(deps: CollectorDependencies): Collector {
  const { store, blobs, clock, retentionMs, log, graceMs = GRACE_MS } = deps
  let timer: NodeJS.Timeout | undefined
  let isStopping = false
  let turn: Promise<unknown> = Promise.resolve()

  async function collect({ by, of, isDryRun = false, now }: CollectCommand): Promise<CollectionReport> {
    if (isDryRun) return await collectHeld({ by, of, isDryRun, now })
    const release = deps.hold === undefined ? () => {} : deps.hold()
    if (!release)
      throw new WaymarkError('workspace_busy', 'A backup is in progress. Try again when it has ended.')
    try {
      return await collectHeld({ by, of, isDryRun, now })
    } finally {
      release()
    }
  }

  async function collectHeld({ by, of, isDryRun = false, now }: CollectCommand): Promise<CollectionReport> {
    const started = performance.now()
    const before = now ? clock.now() : clock.now() - retentionMs
    const tenant = now ? of : null
    const report = emptyReport(isDryRun)
    if (isDryRun) {
      for (const part of await store.unreachable(before, tenant, ALL_SEGMENTS)) {
        report.events += part.events
        report.bytes += part.bytes
        report.messages += part.messages
        report.checkpoints += part.checkpoints
      }
      return report
    }
    // Expire deletions past the retention time for all tenants, and for `now` all deletions of this tenant.
    await store.expire(clock.now() - retentionMs, null)
    if (now) await store.expire(before, tenant)
    await removeEvents(report)
    const swept = await store.sweep(clock.now() - KEYS_MS)
    report.conversations = swept.conversations
    await removeBlobs(report)
    report.file_bytes = isStopping ? 0 : await deps.dropFiles()
    if (hasRemoved(report)) await store.note({ tenant: of, by, details: { ...report, ...swept } })
    deps.onCollected?.(report, (performance.now() - started) / 1000)
    return report
  }

  async function removeEvents(report: CollectionReport): Promise<void> {
    while (!isStopping) {
      const parts = await store.unreachable(0, null, SEGMENTS_AT_ONCE)
      if (parts.length === 0) return
      for (const part of parts) {
        for (let isDone = false; !isDone && !isStopping; ) {
          const step = await store.collect(part)
          isDone = step.isDone
          report.events += step.removed.events
          report.bytes += step.removed.bytes
          report.messages += step.removed.messages
          report.checkpoints += step.removed.checkpoints
          report.agent_states += step.removed.agent_states
        }
      }
    }
  }

  async function removeBlobs(report: CollectionReport): Promise<void> {
    if ((await deps.ownsBlobs?.()) === false) return
    const putBefore = Date.now() - graceMs
    let batch: string[] = []
    const removeUnreferenced = async () => {
      for (const key of batch.length === 0 ? [] : await store.unreferenced(batch)) {
        if (await blobs.delete(key, putBefore)) report.blobs++
      }
      batch = []
    }
    for await (const key of blobs.keys(putBefore)) {
      if (isStopping) return
      batch.push(key)
      if (batch.length === BLOBS_AT_ONCE) await removeUnreferenced()
    }
    await removeUnreferenced()
  }

  /** Runs collections one at a time. */
  function inTurn(command: CollectCommand): Promise<CollectionReport> {
    const next = turn.then(() => collect(command))
    turn = next.catch(() => {})
    return next
  }

  return {
    collect: inTurn,
    start(everyMs) {
      timer = setInterval(() => {
        inTurn({ by: 'the hourly collector', of: null }).then(
          (report) => hasRemoved(report) && log.info({ ...report }, 'collected unreachable data'),
          (error: unknown) => log.error({ err: error }, 'could not collect unreachable data'),
        )
      }, everyMs)
      timer.unref()
    },
    async stop() {
      isStopping = true
      clearInterval(timer)
      await turn
    },
  }
}

function emptyReport(isDryRun: boolean): CollectionReport {
  return {
    dry_run: isDryRun,
    events: 0,
    bytes: 0,
    messages: 0,
    checkpoints: 0,
    agent_states: 0,
    blobs: 0,
    conversations: 0,
    file_bytes: 0,
  }
}

function hasRemoved(report: CollectionReport): boolean {
  return Object.values(report).some((count) => Number(count) > 0)
}
