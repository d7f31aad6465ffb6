import { setMaxListeners } from 'node:events'
import { Cancelled, ModelFailure, type PersonsAnswer, type Turn, type TurnOutcome } from '../core/agent.ts'
import type { PageQuery, RunHold } from '../core/ledger.ts'
import type { Claim, Wishes } from '../core/queue.ts'
import { closeCalls, closeItems, createRunRecord, type RunRecord } from '../core/run-record.ts'
import { AppendRefused, createRunWriter, type RunWriter } from '../core/run-writer.ts'
import { untilAborted, untilAbortedFor } from '../core/until-aborted.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { AnyFrame, FrameDraft } from '../protocol/frames.ts'
import type { RunId } from '../protocol/ids.ts'
import type { RunWorkerDependencies } from './run-worker.ts'

/** The run is no longer ours to end: another worker has it, or will. */
export class Left extends Error {}

export interface ActiveRun {
  runId: RunId
  conversationId: string
  abort(why: Error): void
  answered(answers: Wishes['answers']): void
  /** Never rejects. */
  done: Promise<void>
}

const FRAMES_AT_ONCE = 500
/** How long an agent may take to stop by itself. Frames that it writes later are refused: the run has ended. */
const STOP_GRACE_MS = 3000
/** How often a run that could not be stored is tried to be ended, and how long the waits are: then its lease may end. */
const END_ATTEMPTS = 5
const READ_ATTEMPTS = 4
const END_WAIT_MS = 200

/** Works on a claimed run to its end, or until it is told to leave it. */
export function startRun(deps: RunWorkerDependencies, claim: Claim): ActiveRun {
  const { ledger, queue, states, agent, log } = deps
  const { tenant, conversationId, messageId, content, extras } = claim
  const { runId } = claim.hold
  const aborter = new AbortController()
  // Each call of the model and of a tool listens; there may be many in a run.
  setMaxListeners(0, aborter.signal)
  const asked = createAnswers(aborter.signal)

  async function work(): Promise<void> {
    let record: RunRecord
    try {
      record = await recordOf(claim.hold)
    } catch (error) {
      log.error({ err: error, run: runId }, 'the frames of a run can not be read')
      return await endAgain(error as Error)
    }
    const writer = writerFor(claim.hold, record)
    try {
      await begin(writer, record)
      const wishes = await queue.wishes(runId)
      asked.take(wishes.answers)
      if (wishes.cancelledBy !== null) aborter.abort(new Cancelled(wishes.cancelledBy))
      const running = agent.run(turnOf(record, writer))
      const outcome = await untilAbortedFor(running, aborter.signal, STOP_GRACE_MS)
      // What was asked for while the last words were on their way still counts.
      aborter.signal.throwIfAborted()
      writer.write(...endFrames(record, outcome, messageId))
      await writer.flush()
    } catch (error) {
      await end(writer, record, aborter.signal.aborted ? (aborter.signal.reason as Error) : (error as Error))
    }
  }

  async function begin(writer: RunWriter, record: RunRecord): Promise<void> {
    writer.write(...closeItems(record))
    if (record.hasMessage()) return writer.write(inProgress('carried on after an interruption'))
    const message = messageFrame(claim)
    try {
      const saving = deps.sessions?.beforeMessage({ tenant, conversationId, content })
      // A snapshot of many files must not keep a person from stopping the run.
      const saved = saving && (await untilAborted(saving, aborter.signal))
      if (!saved) return writer.write(message, inProgress())
      const { checkpointId: checkpoint_id, workSession: work_session } = saved
      writer.write({ ...message, checkpoint_id, work_session }, ...saved.frames, inProgress())
    } catch (error) {
      // The agent does not touch files that could not be saved first, but what was said is kept (W7).
      writer.write(message)
      throw error
    }
    void writer
      .flush()
      .then(() => deps.sessions?.follow(tenant, conversationId))
      .catch((error: unknown) => {
        // The ledger has the checkpoint: the repository says so with the next one, or at the next start.
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
        // An answer that we know of may be one to another question; the queue has those that count.
        asked.forget(toolCallId)
      },
      async answerTo(toolCallId) {
        asked.take((await queue.wishes(runId)).answers)
        return await asked.next(toolCallId)
      },
    }
  }

  /** Ends the run for this reason, as far as it can be ended. */
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
        // The store itself is asked again by the next attempt.
        const record = await recordOf(hold).catch(async (error: unknown) => {
          await ledger.ping()
          return unreadable(error)
        })
        const writer = writerFor(hold, record)
        // What was accepted is never without its message, whatever else could not be stored.
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

  /** What can't be read for good, a damaged blob for example, must not keep the run from its end. */
  function unreadable(error: unknown): RunRecord {
    log.error({ err: error, run: runId }, 'a run is ended without its frames')
    return createRunRecord()
  }

  /**
   * A store that is away for a moment is not a run without frames: calls that have begun would be left without an outcome.
   * Only what can't be read although the store answers, several times, is given up.
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
    log.error({ err: error, run: runId }, 'a run was left')
  })

  return {
    runId,
    conversationId,
    done,
    abort: (why) => aborter.abort(why),
    answered: (answers) => asked.take(answers),
  }
}

/** People's answers to the calls that wait for approval. */
function createAnswers(signal: AbortSignal) {
  const known = new Map<string, PersonsAnswer>()
  const waiting = new Map<string, (answer: PersonsAnswer) => void>()
  return {
    take(answers: Wishes['answers']): void {
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

/** Another worker has the run, and ends it (L8). */
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
  const message = 'Something went wrong in the server. Its log says what.'
  return { code: 'internal', message, source: 'server', is_retryable: false }
}

function saidFields(said: ReturnType<RunRecord['said']>) {
  return {
    ...(said.text ? { response_text: said.text } : {}),
    ...(said.reasoning ? { reasoning_summary_text: said.reasoning } : {}),
    ...(said.refusal ? { refusal_text: said.refusal } : {}),
  }
}
