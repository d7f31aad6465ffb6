import { endsRun, terminalMistake } from '../core/append.ts'
import type { BlobStore } from '../core/blobs.ts'
import { type Clock, timestamp } from '../core/clock.ts'
import { joinedDeltas } from '../core/joined-deltas.ts'
import type { AppendCommand, AppendResult, RunHold } from '../core/ledger.ts'
import type { DraftText } from '../core/seal.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { Database } from './database.ts'
import { asText, isLarge, spill } from './spill.ts'
import type { AppendRequest } from './sql/lines/append.ts'

/** An append takes no more frames from here on, so that one run doesn't fill a transaction. */
const MAX_GROWN_FRAMES = 2000
const CLOSING = 'The server is shutting down. Try again later.'

/** An append that waits for its transaction. Later frames of its run are added to it until the transaction starts. */
interface WaitingAppend {
  request: AppendRequest
  lastFrame: FrameDraft | undefined
  /** The last frame has been joined with others, and its draft not yet written. */
  isJoined: boolean
  stored: Promise<AppendResult>
}

interface RunAppends {
  /** Frames handed to transactions, or lost before that: each append states how many precede it (L3). */
  sent: number
  inFlight: number
  waiting: WaitingAppend | null
}

export interface Appends {
  /** Appends that share a transaction's request return the same promise. */
  append(command: AppendCommand): Promise<AppendResult>
  /** Refuses further appends and waits until the database has all earlier ones. */
  close(): Promise<void>
}

/** Hands appends to the database in the order of the calls, after their large frames are stored as blobs. */
export function createAppends(deps: { database: Database; blobs: BlobStore; clock: Clock }): Appends {
  const { database, blobs, clock } = deps
  const runs = new WeakMap<RunHold, RunAppends>()
  /** The last hand-over of each conversation that waits for large frames. */
  const spilling = new Map<string, Promise<void>>()
  let isClosing = false

  function runOf(hold: RunHold): RunAppends {
    let run = runs.get(hold)
    if (!run) {
      run = { sent: hold.frames, inFlight: 0, waiting: null }
      runs.set(hold, run)
    }
    return run
  }

  /** Words that arrive faster than they can be stored share a frame. Null unless the frame can be joined. */
  function join({ conversationId, run: hold, frames, mayGrow }: AppendCommand): Promise<AppendResult> | null {
    const run = mayGrow && hold ? runs.get(hold) : undefined
    const [frame] = frames
    if (!run?.waiting?.lastFrame || !frame || frames.length > 1) return null
    if (run.inFlight === 0 || spilling.has(conversationId)) return null
    const joined = joinedDeltas(run.waiting.lastFrame, frame)
    if (!joined) return null
    run.waiting.lastFrame = joined
    run.waiting.isJoined = true
    return run.waiting.stored
  }

  function handOver(command: AppendCommand, drafts: DraftText[]): Promise<AppendResult> {
    const run = command.run && runOf(command.run)
    if (run?.waiting && command.mayGrow) return grow(run, run.waiting, command, drafts)
    const request = requestOf(command, drafts)
    if (!run) return database.write('append', request)
    const stored = database.write('append', request, () => noteStart(run, request))
    const settled = () => void run.inFlight--
    stored.then(settled, settled)
    const waiting = { request, lastFrame: command.frames.at(-1), isJoined: false, stored }
    run.waiting = command.mayGrow && mayGrow(request) ? waiting : null
    return stored
  }

  function requestOf({ tenant, conversationId, run }: AppendCommand, drafts: DraftText[]): AppendRequest {
    const hold = { runId: run?.runId ?? null, epoch: run?.epoch ?? null, after: 0 }
    return { tenant, conversationId, ...hold, timestamp: timestamp(clock.now()), drafts }
  }

  function noteStart(run: RunAppends, request: AppendRequest): void {
    if (run.waiting?.request === request) {
      writeJoined(run.waiting)
      run.waiting = null
    }
    request.after = run.sent
    run.sent += request.drafts.length
    run.inFlight++
  }

  function grow(run: RunAppends, waiting: WaitingAppend, command: AppendCommand, drafts: DraftText[]) {
    writeJoined(waiting)
    waiting.request.drafts.push(...drafts)
    waiting.lastFrame = command.frames.at(-1)
    if (!mayGrow(waiting.request)) run.waiting = null
    return waiting.stored
  }

  /** Appends after a large frame wait until it is handed over, so that the order of calls is the order of events. */
  async function handOverInTurn(command: AppendCommand, drafts: DraftText[]): Promise<AppendResult> {
    const { conversationId, run } = command
    const earlier = spilling.get(conversationId)
    const turn = Promise.withResolvers<void>()
    spilling.set(conversationId, turn.promise)
    const ready = Promise.all(drafts.map(async (draft) => (isLarge(draft) ? spill(blobs, draft) : draft)))
    const [, prepared] = await Promise.allSettled([earlier, ready])
    // Delete in the same tick as the hand-over, so that later appends come after this one.
    if (spilling.get(conversationId) === turn.promise) spilling.delete(conversationId)
    turn.resolve()
    if (prepared.status === 'fulfilled') return await handOver(command, prepared.value)
    if (run) runOf(run).sent += drafts.length
    const cause = prepared.reason as Error
    throw new WaymarkError('storage_failed', `The write failed: ${cause.message}`, { cause })
  }

  return {
    append(command) {
      if (isClosing) return Promise.reject(new WaymarkError('storage_failed', CLOSING))
      const joined = join(command)
      if (joined) return joined
      const drafts = command.frames.map(asText)
      const mistake = terminalMistake({ runId: command.run?.runId ?? null, drafts })
      if (mistake !== null) return Promise.reject(new Error(mistake))
      if (spilling.has(command.conversationId) || drafts.some(isLarge)) return handOverInTurn(command, drafts)
      return handOver(command, drafts)
    },
    async close() {
      isClosing = true
      while (spilling.size > 0) await Promise.all(spilling.values())
    },
  }
}

/** A terminal frame is the last of its run (L5). */
function mayGrow(request: AppendRequest): boolean {
  return request.drafts.length < MAX_GROWN_FRAMES && !endsRun(request)
}

function writeJoined(waiting: WaitingAppend): void {
  const { request, lastFrame } = waiting
  if (waiting.isJoined && lastFrame) request.drafts[request.drafts.length - 1] = asText(lastFrame)
  waiting.isJoined = false
}
