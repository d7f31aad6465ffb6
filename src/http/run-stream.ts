import type { ServerResponse } from 'node:http'
import type { Page, PageQuery } from '../core/ledger.ts'
import type { AcceptedMessage } from '../protocol/api/runs.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { isTerminalKind } from '../protocol/frame-kinds.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { AppDependencies } from './app-dependencies.ts'
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
  const { tenant, conversationId, accepted } = run
  const out = openEventStream(response, deps.stopping)
  const ended = new AbortController()
  if (out.signal.aborted) ended.abort()
  out.signal.addEventListener('abort', () => ended.abort())
  await out.write(namedEvent('accepted', accepted))
  let { cursor } = run
  let hasBegun = false
  let hasLeft = false

  const unlisten = deps.queue.onChange((changed) => {
    if (changed === conversationId || changed === null) void lookAtQueue()
  })

  /** A run leaves the queue with its last frame, or without any when it was taken out: then nothing more will come. */
  async function lookAtQueue(): Promise<void> {
    try {
      hasLeft ||= !(await isQueued())
      if (hasLeft) ended.abort()
    } catch (error) {
      deps.log.error({ err: error, run: accepted.run_id }, 'the queue can not be read')
    }
  }

  async function isQueued(): Promise<boolean> {
    try {
      const { active, waiting } = await deps.queue.read(tenant, conversationId)
      return [active, ...waiting].some((one) => one?.runId === accepted.run_id)
    } catch (error) {
      if (error instanceof WaymarkError && error.code === 'conversation_not_found') return false
      throw error
    }
  }

  /** Whether the run's last frame was among them. */
  async function sendPage(page: Page): Promise<boolean> {
    let text = ''
    let isLast = false
    for (const part of page.parts) {
      for (let seq = part.from; seq <= part.to && !isLast; seq++) {
        const frame = page.frames[seq - page.firstSeq] ?? ''
        if (!isOf(frame, accepted.run_id)) continue
        text += `id: ${part.segmentId}.${seq}\ndata: ${frame}\n\n`
        isLast = isTerminalKind((JSON.parse(frame) as { kind: string }).kind)
      }
    }
    hasBegun ||= text !== ''
    if (text) await out.write(text)
    cursor = page.last
    return isLast
  }

  async function send(): Promise<void> {
    const query = { tenant, conversationId, limit: FRAMES_AT_ONCE }
    for await (const page of deps.ledger.follow({ ...query, cursor }, ended.signal)) {
      if (await sendPage(page)) return
    }
    // Whatever it had to say is in the ledger by now.
    while (hasLeft && !out.signal.aborted) {
      const page = await deps.ledger.page({ ...query, cursor })
      if (await sendPage(page)) return
      if (!page.atEnd) continue
      return await out.write(namedEvent(hasBegun ? 'abandoned' : 'removed', { run_id: accepted.run_id }))
    }
  }

  void lookAtQueue()
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

/** The envelope's head comes first in every frame, in one order. */
function isOf(frame: string, runId: string): boolean {
  return frame.slice(0, 400).includes(`"stream_id":"${runId}"`)
}
