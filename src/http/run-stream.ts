import type { ServerResponse } from 'node:http'
import type { PageQuery } from '../core/ledger.ts'
import type { AcceptedMessage } from '../protocol/api.ts'
import { isTerminalKind } from '../protocol/frame-kinds.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { AppDependencies } from './env.ts'
import { problemOf } from './problem.ts'
import { namedEvent, openEventStream } from './sse.ts'

const FRAMES_AT_ONCE = 250

/** One run's frames as they come, up to its last. Closing the connection never stops the run (R2). */
export async function streamRun(
  response: ServerResponse,
  deps: AppDependencies,
  run: {
    tenant: string
    conversationId: ConversationId
    cursor: PageQuery['cursor']
    accepted: AcceptedMessage
  },
): Promise<void> {
  const { tenant, conversationId, cursor, accepted } = run
  const ended = new AbortController()
  const out = openEventStream(response, deps.stopping)
  if (out.signal.aborted) ended.abort()
  out.signal.addEventListener('abort', () => ended.abort())
  await out.write(namedEvent('accepted', accepted))
  // A message that is taken out of the queue never gets frames: who waits for them must be told.
  const unlisten = deps.queue.onChange((changed) => {
    if (changed === conversationId || changed === null) void endIfGone()
  })
  let hasBegun = false

  async function endIfGone(): Promise<void> {
    if (hasBegun || ended.signal.aborted) return
    const { active, waiting } = await deps.queue.read(tenant, conversationId)
    const isThere = [active, ...waiting].some((one) => one?.runId === accepted.run_id)
    if (!isThere) removed = true
    // Its frames may be on their way: a last look at the ledger tells.
    if (!isThere) setTimeout(() => ended.abort(), LAST_LOOK_MS)
  }
  let removed = false

  async function send(): Promise<void> {
    const query: PageQuery = { tenant, conversationId, cursor, limit: FRAMES_AT_ONCE }
    for await (const page of deps.ledger.follow(query, ended.signal)) {
      let text = ''
      let isLast = false
      for (const part of page.parts) {
        for (let seq = part.from; seq <= part.to && !isLast; seq++) {
          const frame = page.frames[seq - page.firstSeq] ?? ''
          if (!isOf(frame, accepted.run_id)) continue
          hasBegun = true
          text += `id: ${part.segmentId}.${seq}\ndata: ${frame}\n\n`
          isLast = isTerminalKind((JSON.parse(frame) as { kind: string }).kind)
        }
      }
      if (text) await out.write(text)
      if (isLast) return
    }
    if (removed && !hasBegun) await out.write(namedEvent('removed', { run_id: accepted.run_id }))
  }

  void endIfGone().catch(() => {})
  void send()
    .catch(async (error: unknown) => {
      deps.log.error({ err: error, run: accepted.run_id }, 'a stream broke off')
      await out.write(namedEvent('problem', problemOf(error)))
    })
    .finally(() => {
      unlisten()
      ended.abort()
      out.end()
    })
}

/** How long frames may take from the commit to a reader. */
const LAST_LOOK_MS = 1000

/** The envelope's head comes first in every frame, in one order. */
function isOf(frame: string, runId: string): boolean {
  return frame.slice(0, 400).includes(`"stream_id":"${runId}"`)
}
