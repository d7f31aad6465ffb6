import { type Agent, Cancelled } from '../core/agent.ts'
import type { AgentStates } from '../core/agent-states.ts'
import type { Ledger } from '../core/ledger.ts'
import type { Log } from '../core/log.ts'
import type { Claim, Queue } from '../core/queue.ts'
import type { WorkSessions } from '../core/work-sessions.ts'
import { type ActiveRun, Left, startRun } from './active-run.ts'

/** A claim is looked for at least this often, should a notice have been missed. */
const POLL_MS = 2000

export interface RunWorkerDependencies {
  ledger: Ledger
  queue: Queue
  states: AgentStates
  agent: Pick<Agent, 'run'>
  /** Without it no checkpoints are made. */
  sessions?: Pick<WorkSessions, 'beforeMessage' | 'follow' | 'afterRun'>
  log: Pick<Log, 'error'>
  /** Names this process among all that work on the store. */
  worker: string
  /** The workspaces that this process has. */
  workspaceIds(): readonly string[]
  leaseMs: number
  maxRuns: number
}

export interface RunWorker {
  /** How many runs it is working on. */
  active(): number
  /** Leaves its runs as they are and releases them for another worker. */
  stop(): Promise<void>
}

/** Takes runs from the queue and works on them, each conversation's one at a time (R1, R3). */
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
        log.error({ err: error }, 'the queue can not be read')
      })
      .finally(() => {
        isClaiming = false
        // A message may have arrived since the last look.
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
    // Claimed while stopping: it is let go of with the others.
    if (isStopping) run.abort(new Left('stopping'))
    void run.done.finally(() => {
      if (runs.get(run.runId) === run) runs.delete(run.runId)
      deps.sessions?.afterRun(claim.workspaceId)
      wake()
    })
  }

  function onChange(conversationId: string | null): void {
    for (const run of runs.values()) {
      if (conversationId === null || run.conversationId === conversationId) void lookAtWishes(run)
    }
    wake()
  }

  async function lookAtWishes(run: ActiveRun): Promise<void> {
    try {
      const { isQueued, cancelledBy, answers } = await queue.wishes(run.runId)
      if (!isQueued) run.abort(new Left('gone'))
      if (cancelledBy !== null) run.abort(new Cancelled(cancelledBy))
      run.answered(answers)
    } catch (error) {
      log.error({ err: error, run: run.runId }, 'the wishes for a run can not be read')
    }
  }

  async function renew(): Promise<void> {
    if (runs.size === 0) return
    const held = [...runs.keys()]
    try {
      const own = new Set<string>(await queue.renew(worker, held, leaseMs))
      for (const runId of held) if (!own.has(runId)) runs.get(runId)?.abort(new Left('lease lost'))
    } catch (error) {
      log.error({ err: error }, 'the leases can not be renewed')
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
        log.error({ err: error }, 'the runs could not be let go of; others take them when their leases end')
      })
    },
  }
}
