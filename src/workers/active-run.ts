import { setMaxListeners } from 'node:events'
import {
  type Agent,
  Cancelled,
  ModelFailure,
  type PersonsAnswer,
  type Turn,
  type TurnOutcome,
} from '../core/agent.ts'
import type { AgentStates } from '../core/agent-states.ts'
import type { Ledger, PageQuery, RunHold } from '../core/ledger.ts'
import type { Log } from '../core/log.ts'
import type { Claim, Queue, Signals } from '../core/queue.ts'
import { closeCalls, closeItems, createRunRecord, type RunRecord } from '../core/run-record.ts'
import { AppendRefused, type RunWriter } from '../core/run-writer.ts'
import { untilAborted, untilAbortedFor } from '../core/until-aborted.ts'
import type { WorkSessions } from '../core/work-sessions.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { AnyFrame, FrameDraft } from '../protocol/frames.ts'
import type { RunId } from '../protocol/ids.ts'
import { createRunWriter } from './run-writer.ts'

export interface RunDependencies {
  ledger: Ledger
  queue: Queue
  states: AgentStates
  agent: Pick<Agent, 'run'>
  /** Without it, no checkpoints are taken. */
  sessions?: Pick<WorkSessions, 'beforeMessage' | 'writeRepository' | 'afterRun'>
  log: Pick<Log, 'error'>
  /** Identifies this process among all workers of the store. */
  worker: string
  leaseMs: number
}

/** This worker must not end the run: another worker has it, or will. */
export class Left extends Error {}

export interface ActiveRun {
  runId: RunId
  conversationId: string
  abort(why: Error): void
  answered(answers: Signals['answers']): void
  /** Never rejects. */
  done: Promise<void>
}

const FRAMES_AT_ONCE = 500
/** How long an agent may take to stop by itself. Frames that it writes later are refused, because the run has ended. */
const STOP_GRACE_MS = 3000
/** Attempts to end a run after a storage failure, with doubling waits. After the last one its lease may expire. */
const END_ATTEMPTS = 5
const READ_ATTEMPTS = 4
const END_WAIT_MS = 200

/** Works on a claimed run until it ends or is aborted. */
export function startRun(deps: RunDependencies, claim: Claim): ActiveRun {
  const { ledger, queue, states, agent, log } = deps
  const { tenant, conversationId, messageId, content, extras } = claim
  const { runId } = claim.hold
  const aborter = new AbortController()
  // Every call of the model or a tool adds a listener, and a run may have many.
  setMaxListeners(0, aborter.signal)
  const asked = createAnswers(aborter.signal)

  async function work(): Promise<void> {
    let record: RunRecord
    try {
      record = await recordOf(claim.hold)
    } catch (error) {
      log.error({ err: error, run: runId }, 'could not read the frames of a run')
      return await endAgain(error as Error)
    }
    const writer = writerFor(claim.hold, record)
    try {
      await begin(writer, record)
      const signals = await queue.signals(runId)
      asked.take(signals.answers)
      if (signals.cancelledBy !== null) aborter.abort(new Cancelled(signals.cancelledBy))
      const running = agent.run(turnOf(record, writer))
      const outcome = await untilAbortedFor(running, aborter.signal, STOP_GRACE_MS)
      // A stop that was requested while the last words arrived still counts.
      aborter.signal.throwIfAborted()
      writer.write(...endFrames(record, outcome, messageId))
      await writer.flush()
    } catch (error) {
      await end(writer, record, aborter.signal.aborted ? (aborter.signal.reason as Error) : (error as Error))
    }
  }

  async function begin(writer: RunWriter, record: RunRecord): Promise<void> {
    writer.write(...closeItems(record))
    if (record.hasMessage()) return writer.write(inProgress('resumed after an interruption'))
    const message = messageFrame(claim)
    try {
      const saving = deps.sessions?.beforeMessage({ tenant, conversationId, content })
      // Stop must work even while a checkpoint of many files is being taken.
      const saved = saving && (await untilAborted(saving, aborter.signal))
      if (!saved) return writer.write(message, inProgress())
      const { checkpointId: checkpoint_id, workSession: work_session } = saved
      writer.write({ ...message, checkpoint_id, work_session }, ...saved.frames, inProgress())
    } catch (error) {
      // Without a checkpoint the agent must not touch files, but the message is kept (W7).
      writer.write(message)
      throw error
    }
    void writer
      .flush()
      .then(() => deps.sessions?.writeRepository(tenant, conversationId))
      .catch((error: unknown) => {
        // The ledger has the checkpoint; the repository catches up with the next one, or at the next start.
        if (!aborter.signal.aborted)
          log.error({ err: error, run: runId }, 'a repository could not be written')
      })
  }

  function turnOf(record: RunRecord, writer: RunWriter): Turn {
    return {
      tenant,
      conversationId,
      runId,
      workspaceId: claim.workspaceId,
      hold: claim.hold,
      message: { messageId, content, extras },
      mayChangeFiles: claim.mayChangeFiles,
      writer,
      record,
      signal: aborter.signal,
      async confirmHold() {
        const own = await queue.renew(deps.worker, [runId], deps.leaseMs)
        if (!own.includes(runId)) throw new WaymarkError('lease_lost', 'Another worker holds the run.')
      },
      async ask(toolCallId, question) {
        await queue.ask(runId, toolCallId, question)
        // A known answer may belong to an earlier question; the queue has the answers that count.
        asked.forget(toolCallId)
      },
      async answerTo(toolCallId) {
        asked.take((await queue.signals(runId)).answers)
        return await asked.next(toolCallId)
      },
    }
  }

  /** Ends the run for this reason, if possible. */
  async function end(writer: RunWriter, record: RunRecord, why: Error): Promise<void> {
    if (why instanceof Left || isLost(why)) return
    if (why instanceof AppendRefused && isGone(why)) return await queue.abandon(runId)
    try {
      writer.write(...failureFrames(record, why))
      await writer.flush()
      if (!isExpected(why)) log.error({ err: why, run: runId }, 'a run failed')
    } catch (error) {
      if (isLost(error)) return
      log.error({ err: why, cause: error, run: runId }, 'a run could not be stored')
      await endAgain(
        error instanceof AppendRefused && error.refusal === 'frame_missing' ? why : (error as Error),
      )
    }
  }

  /** A frame was not stored, so this hold can't store any: a new hold continues after the stored frames (L3, L5). */
  async function endAgain(why: Error): Promise<void> {
    let { epoch } = claim.hold
    for (let attempt = 0; attempt < END_ATTEMPTS; attempt++) {
      try {
        const hold = await ledger.takeRun(tenant, runId, epoch)
        epoch = hold.epoch
        // If the store is down, `ping` throws and the next attempt reads again.
        const record = await recordOf(hold).catch(async (error: unknown) => {
          await ledger.ping()
          return unreadable(error)
        })
        const writer = writerFor(hold, record)
        // An accepted message is always stored, whatever else could not be.
        if (hold.frames === 0) writer.write(messageFrame(claim))
        writer.write(...failureFrames(record, why))
        return await writer.flush()
      } catch (error) {
        if (error instanceof WaymarkError && error.code !== 'storage_failed') return
        if (error instanceof AppendRefused) return isGone(error) ? await queue.abandon(runId) : undefined
        await new Promise((resolve) => setTimeout(resolve, END_WAIT_MS * 2 ** attempt))
      }
    }
  }

  function writerFor(hold: RunHold, record: RunRecord): RunWriter {
    return createRunWriter({
      ledger,
      tenant,
      conversationId,
      hold,
      record,
      onFailure: (error) => aborter.abort(error),
    })
  }

  /** Data that stays unreadable, such as a damaged blob, must not keep the run from ending. */
  function unreadable(error: unknown): RunRecord {
    log.error({ err: error, run: runId }, 'ending a run whose frames are unreadable')
    return createRunRecord()
  }

  /**
   * A brief outage of the store must not look like a run without frames: calls that have begun would be left without an
   * outcome. Gives up only on frames that stay unreadable although the store responds.
   */
  async function recordOf(hold: RunHold): Promise<RunRecord> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await readRecord(hold)
      } catch (error) {
        await ledger.ping()
        if (attempt >= READ_ATTEMPTS) throw error
        await new Promise((resolve) => setTimeout(resolve, END_WAIT_MS * 2 ** attempt))
      }
    }
  }

  async function readRecord(hold: RunHold): Promise<RunRecord> {
    const record = createRunRecord()
    if (hold.frames === 0) return record
    const { start } = await states.past({ tenant, conversationId, runId })
    const query: PageQuery = { tenant, conversationId, cursor: start, limit: FRAMES_AT_ONCE }
    for (;;) {
      const page = await ledger.page(query)
      for (const text of page.frames) {
        const frame = JSON.parse(text) as AnyFrame
        if (frame.stream_id === runId) record.note(frame)
      }
      query.cursor = page.last
      if (page.atEnd) return record
    }
  }

  const done = work().catch((error: unknown) => {
    // The run is still in the queue: another worker takes it over when the lease expires.
    log.error({ err: error, run: runId }, 'left a run for another worker')
  })

  return {
    runId,
    conversationId,
    done,
    abort: (why) => aborter.abort(why),
    answered: (answers) => asked.take(answers),
  }
}

/** People's answers to calls that wait for approval. */
function createAnswers(signal: AbortSignal) {
  const known = new Map<string, PersonsAnswer>()
  const waiting = new Map<string, (answer: PersonsAnswer) => void>()
  return {
    take(answers: Signals['answers']): void {
      for (const { toolCallId, ...answer } of answers) {
        known.set(toolCallId, answer)
        waiting.get(toolCallId)?.(answer)
      }
    },
    forget: (toolCallId: string) => void known.delete(toolCallId),
    next(toolCallId: string): Promise<PersonsAnswer> {
      const answer = known.get(toolCallId)
      if (answer) return Promise.resolve(answer)
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason)
        waiting.set(toolCallId, resolve)
        signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      })
    },
  }
}

/** True if another worker holds the run and will end it (L8). */
function isLost(error: unknown): boolean {
  return (
    (error instanceof AppendRefused && error.refusal === 'lease_lost') ||
    (error instanceof WaymarkError && error.code === 'lease_lost')
  )
}

function isGone({ refusal }: AppendRefused): boolean {
  return refusal === 'conversation_not_found' || refusal === 'segment_cut' || refusal === 'run_not_found'
}

function isExpected(why: Error): boolean {
  return why instanceof Cancelled || why instanceof ModelFailure
}

function messageFrame({ messageId, content, extras }: Claim): FrameDraft<'message.user'> {
  const active_files = extras.activeFiles?.map((file) => file.path) ?? []
  const attachments = extras.attachments?.map((one) => ({ ...one })) ?? []
  return {
    kind: 'message.user',
    message_id: messageId,
    content,
    ...(active_files.length > 0 ? { active_files } : {}),
    ...(attachments.length > 0 ? { attachments } : {}),
  }
}

function inProgress(reason?: string): FrameDraft<'lifecycle'> {
  return { kind: 'lifecycle', status: 'in_progress', ...(reason === undefined ? {} : { reason }) }
}

function endFrames(record: RunRecord, outcome: TurnOutcome, messageId: string): FrameDraft[] {
  const { status, reason, usage, stateId } = outcome
  const said = record.said()
  const finalStatus = said.refusal ? 'refused' : record.hasOutput() ? status : 'incomplete'
  return [
    ...closeItems(record),
    { kind: 'agent.checkpoint', checkpoint_id: stateId, message_id: messageId },
    { kind: 'lifecycle', status, ...(reason === null ? {} : { reason }) },
    { kind: 'final', final: { status: finalStatus, ...saidFields(said), attachments: [], usage } },
  ]
}

function failureFrames(record: RunRecord, why: Error): FrameDraft[] {
  if (why instanceof Cancelled) {
    return [
      ...closeItems(record),
      ...closeCalls(record),
      { kind: 'lifecycle', status: 'cancelled', reason: `stopped by ${why.by}` },
      { kind: 'final', final: { status: 'cancelled', ...saidFields(record.said()), attachments: [] } },
    ]
  }
  return [
    ...closeItems(record),
    ...closeCalls(record),
    { kind: 'lifecycle', status: 'failed' },
    { kind: 'error', error: errorFields(why) },
  ]
}

function errorFields(why: Error): FrameDraft<'error'>['error'] {
  if (why instanceof ModelFailure) {
    return { code: why.code, message: why.message, source: 'provider', is_retryable: why.isRetryable }
  }
  if (why instanceof WaymarkError && why.code === 'snapshot_failed') {
    return { code: why.code, message: why.message, source: 'server', is_retryable: true }
  }
  if (why instanceof WaymarkError || why instanceof AppendRefused) {
    const message = 'Part of the answer could not be stored.'
    return { code: 'storage_failed', message, source: 'server', is_retryable: true }
  }
  const message = 'Internal server error. See the server log.'
  return { code: 'internal', message, source: 'server', is_retryable: false }
}

function saidFields(said: ReturnType<RunRecord['said']>) {
  return {
    ...(said.text ? { response_text: said.text } : {}),
    ...(said.reasoning ? { reasoning_summary_text: said.reasoning } : {}),
    ...(said.refusal ? { refusal_text: said.refusal } : {}),
  }
}
