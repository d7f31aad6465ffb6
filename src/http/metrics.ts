import type { MiddlewareHandler } from 'hono'
import { routePath } from 'hono/route'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { CollectionReport } from '../protocol/api/upkeep.ts'

export interface HttpMetrics {
  registry: Registry
  requests: MiddlewareHandler
  openStreams: Gauge
  /** Called for each committed group of writes. */
  committed: (group: Committed) => void
  /** Called after each collection. */
  collected: (report: CollectionReport, seconds: number) => void
}

export interface Committed {
  frames: number
  seconds: number
  marks: { kind: string; text: string }[]
  modelCalls: number
}

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

export function createMetrics(queueDepths: () => Promise<{ waiting: number; active: number }>): HttpMetrics {
  const registry = new Registry()
  const registers = [registry]
  const requests = new Histogram({
    name: 'waymark_http_request_seconds',
    help: 'Request duration by method, route and status',
    labelNames: ['method', 'route', 'status'],
    buckets: SECONDS,
    registers,
  })
  const frames = new Counter({
    name: 'waymark_ledger_frames_total',
    help: 'Frames appended by this process',
    registers,
  })
  const commits = new Histogram({
    name: 'waymark_ledger_commit_seconds',
    help: 'Duration of a group commit, from submission to durable',
    buckets: SECONDS,
    registers,
  })
  const groups = new Histogram({
    name: 'waymark_ledger_group_frames',
    help: 'Frames in a group commit',
    buckets: [1, 4, 16, 64, 256, 1024, 4096],
    registers,
  })
  const openStreams = new Gauge({
    name: 'waymark_open_streams',
    help: 'Readers connected to a live stream',
    registers,
  })
  const collections = new Histogram({
    name: 'waymark_gc_seconds',
    help: 'Duration of a collection',
    buckets: [0.01, 0.1, 1, 10, 60, 600],
    registers,
  })
  const removed = new Counter({
    name: 'waymark_gc_removed_total',
    help: 'Objects removed by collections, by kind; bytes of frames and of checkpointed files',
    labelNames: ['what'],
    registers,
  })
  const lastCollection = new Gauge({
    name: 'waymark_gc_last_success_timestamp_seconds',
    help: 'Time of the last successful collection',
    registers,
  })
  const runs = new Counter({
    name: 'waymark_runs_ended_total',
    help: 'Runs ended by this process, by status',
    labelNames: ['status'],
    registers,
  })
  const tokens = new Counter({
    name: 'waymark_model_tokens_total',
    help: 'Tokens reported by the provider, by direction',
    labelNames: ['direction'],
    registers,
  })
  const modelCalls = new Counter({
    name: 'waymark_model_calls_total',
    help: 'Model requests started by this process',
    registers,
  })
  const checkpoints = new Counter({
    name: 'waymark_checkpoints_total',
    help: 'File checkpoints stored by this process',
    registers,
  })
  const fileChanges = new Counter({
    name: 'waymark_file_changes_total',
    help: 'Restores, resets and approvals, by kind',
    labelNames: ['kind'],
    registers,
  })
  const skippedFiles = new Counter({
    name: 'waymark_skipped_files_total',
    help: 'Files skipped by restores and resets',
    registers,
  })
  const queued = new Gauge({
    name: 'waymark_queue_messages',
    help: 'Messages in the queues of all conversations, by state',
    labelNames: ['state'],
    async collect() {
      const { waiting, active } = await queueDepths()
      this.set({ state: 'waiting' }, waiting)
      this.set({ state: 'active' }, active)
    },
    registers: [],
  })
  registry.registerMetric(queued)

  function count(kind: string, text: string): void {
    const frame = JSON.parse(text) as Marked
    if (kind === 'workspace.checkpoint') return checkpoints.inc()
    if (kind === 'error') return runs.inc({ status: 'failed' })
    if (kind === 'final') {
      runs.inc({ status: frame.final?.status ?? 'unknown' })
      tokens.inc({ direction: 'input' }, frame.final?.usage?.input_tokens ?? 0)
      return tokens.inc({ direction: 'output' }, frame.final?.usage?.output_tokens ?? 0)
    }
    fileChanges.inc({ kind })
    skippedFiles.inc(frame.skipped?.length ?? 0)
  }

  return {
    registry,
    openStreams,
    requests: async (c, next) => {
      const started = performance.now()
      await next()
      const labels = { method: c.req.method, route: routePath(c, -1), status: String(c.res.status) }
      requests.observe(labels, (performance.now() - started) / 1000)
    },
    committed(group) {
      frames.inc(group.frames)
      commits.observe(group.seconds)
      groups.observe(group.frames)
      modelCalls.inc(group.modelCalls)
      for (const { kind, text } of group.marks) count(kind, text)
    },
    collected(report, seconds) {
      collections.observe(seconds)
      lastCollection.setToCurrentTime()
      for (const [what, count] of Object.entries(report)) {
        if (typeof count === 'number') removed.inc({ what }, count)
      }
    },
  }
}

/** The frame fields that metrics count. */
interface Marked {
  final?: { status?: string; usage?: { input_tokens?: number; output_tokens?: number } }
  skipped?: unknown[]
}
