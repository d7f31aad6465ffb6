import { runIdOf } from '../../core/frame-head.ts'
import type { Ledger, Page, PageQuery } from '../../core/ledger.ts'
import type { Log } from '../../core/log.ts'
import type { Queue } from '../../core/queue.ts'
import { type Cursor, formatCursor } from '../../protocol/cursor.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import { isTerminalKind } from '../../protocol/frame-kinds.ts'
import type { ConversationId } from '../../protocol/ids.ts'

/** What happens to a run, whatever protocol carries it. The last event is a terminal frame, or says that none will come. */
export type RunEvent =
  | { type: 'frames'; frames: { cursor: string; frame: string }[] }
  /** Removed from the queue before it started. */
  | { type: 'removed' }
  /** Started, and will never have a terminal frame. */
  | { type: 'abandoned' }

export interface FollowedRun {
  tenant: string
  conversationId: ConversationId
  runId: string
  /** Where to start reading; null for the beginning of the line. */
  cursor: Cursor | null
}

const FRAMES_AT_ONCE = 250

/** Follows a run up to its end, or until the signal aborts. */
export async function* followRun(
  deps: { ledger: Pick<Ledger, 'follow' | 'page'>; queue: Pick<Queue, 'read' | 'onChange'>; log: Log },
  { tenant, conversationId, runId, cursor: start }: FollowedRun,
  signal: AbortSignal,
): AsyncGenerator<RunEvent> {
  const left = new AbortController()
  const query: PageQuery = { tenant, conversationId, limit: FRAMES_AT_ONCE, cursor: start }
  let hasBegun = false

  /** A run leaves the queue with its terminal frame, or without frames when it is removed; no more frames follow. */
  async function checkQueue(): Promise<void> {
    try {
      if (!(await isQueued())) left.abort()
    } catch (error) {
      deps.log.error({ err: error, run: runId }, 'could not read the queue')
    }
  }

  async function isQueued(): Promise<boolean> {
    try {
      const { active, waiting } = await deps.queue.read(tenant, conversationId)
      return [active, ...waiting].some((one) => one?.runId === runId)
    } catch (error) {
      if (error instanceof WaymarkError && error.code === 'conversation_not_found') return false
      throw error
    }
  }

  const unlisten = deps.queue.onChange((changed) => {
    if (changed === conversationId || changed === null) void checkQueue()
  })
  void checkQueue()
  /** The run's frames on the next page; notes how far it was read. */
  function read(page: Page) {
    const found = framesOf(page, runId)
    query.cursor = page.last
    hasBegun ||= found.frames.length > 0
    return found
  }

  try {
    for await (const page of deps.ledger.follow({ ...query }, AbortSignal.any([signal, left.signal]))) {
      const { frames, isLast } = read(page)
      if (frames.length > 0) yield { type: 'frames', frames }
      if (isLast) return
    }
    // The run has left the queue, so all its frames are in the ledger.
    while (!signal.aborted) {
      const page = await deps.ledger.page(query)
      const { frames, isLast } = read(page)
      if (frames.length > 0) yield { type: 'frames', frames }
      if (isLast) return
      if (page.atEnd) return yield { type: hasBegun ? 'abandoned' : 'removed' }
    }
  } finally {
    unlisten()
    left.abort()
  }
}

/** The run's frames on a page, up to its terminal frame. */
function framesOf(page: Page, runId: string) {
  const frames: { cursor: string; frame: string }[] = []
  for (const { segmentId, from, to } of page.parts) {
    for (let seq = from; seq <= to; seq++) {
      const frame = page.frames[seq - page.firstSeq] ?? ''
      if (runIdOf(frame) !== runId) continue
      frames.push({ cursor: formatCursor({ segmentId, seq }), frame })
      if (isTerminalKind((JSON.parse(frame) as { kind: string }).kind)) return { frames, isLast: true }
    }
  }
  return { frames, isLast: false }
}
