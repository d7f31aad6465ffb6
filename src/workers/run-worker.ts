import { Cancelled } from '../core/agent.ts'
import type { Claim } from '../core/queue.ts'
import { type ActiveRun, Left, type RunDependencies, startRun } from './active-run.ts'

/** How often to look for claims, in case a notification was missed. */
const POLL_MS = 2000

export interface RunWorkerDependencies extends RunDependencies {
  /** The workspaces of this process. */
  workspaceIds(): readonly string[]
  maxRuns: number
}

export interface RunWorker {
  /** Number of runs in progress. */
  active(): number
  /** Stops its runs where they are and releases them for another worker. */
  stop(): Promise<void>
}

/** Takes runs from the queue and works on them, one at a time for each conversation (R1, R3). */
export function createRunWorker(deps: RunWorkerDependencies): RunWorker {
  const { queue, worker, workspaceIds, leaseMs, maxRuns, log } = deps
  const runs = new Map<string, ActiveRun>()
  let isStopping = false
  let isClaiming = false
  let claimAgain = false
  let claiming: Promise<void> = Promise.resolve()

  function wake(): void {
    if (isStopping) return
    claimAgain = true
    if (isClaiming) return
    isClaiming = true
    claiming = claimAll()
      .catch((error: unknown) => {
        claimAgain = false
        log.error({ err: error }, 'could not read the queue')
      })
      .finally(() => {
        isClaiming = false
        // A message may have arrived since the last claim.
        if (claimAgain) wake()
      })
  }

  async function claimAll(): Promise<void> {
    while (claimAgain) {
      claimAgain = false
      while (!isStopping && runs.size < maxRuns) {
        const held = [...runs.keys()]
        const claim = await queue.claim({ worker, leaseMs, workspaceIds: workspaceIds(), held })
        if (!claim) break
        begin(claim)
      }
    }
  }

  function begin(claim: Claim): void {
    const run = startRun(deps, claim)
    runs.set(claim.hold.runId, run)
    // Claimed while stopping: release it with the others.
    if (isStopping) run.abort(new Left('stopping'))
    void run.done.finally(() => {
      if (runs.get(run.runId) === run) runs.delete(run.runId)
      deps.sessions?.afterRun(claim.workspaceId)
      wake()
    })
  }

  function onChange(conversationId: string | null): void {
    for (const run of runs.values()) {
      if (conversationId === null || run.conversationId === conversationId) void checkSignals(run)
    }
    wake()
  }

  async function checkSignals(run: ActiveRun): Promise<void> {
    try {
      const { isQueued, cancelledBy, answers } = await queue.signals(run.runId)
      if (!isQueued) run.abort(new Left('not queued'))
      if (cancelledBy !== null) run.abort(new Cancelled(cancelledBy))
      run.answered(answers)
    } catch (error) {
      log.error({ err: error, run: run.runId }, 'could not read the requests for a run')
    }
  }

  async function renew(): Promise<void> {
    if (runs.size === 0) return
    const held = [...runs.keys()]
    try {
      const own = new Set<string>(await queue.renew(worker, held, leaseMs))
      for (const runId of held) if (!own.has(runId)) runs.get(runId)?.abort(new Left('lease lost'))
    } catch (error) {
      log.error({ err: error }, 'could not renew leases')
    }
  }

  const unlisten = queue.onChange(onChange)
  const renewing = setInterval(() => void renew(), leaseMs / 3)
  const polling = setInterval(() => onChange(null), POLL_MS)
  wake()

  return {
    active: () => runs.size,
    async stop() {
      isStopping = true
      unlisten()
      clearInterval(renewing)
      clearInterval(polling)
      for (const run of runs.values()) run.abort(new Left('stopping'))
      await claiming
      await Promise.all([...runs.values()].map((run) => run.done))
      await queue.release(worker).catch((error: unknown) => {
        log.error({ err: error }, 'could not release runs; others take them over when their leases expire')
      })
    },
  }
}
