// A server in a separate process, for benches that must not share one with their client. Started by `startBenchServer`.
import { readConfig } from '../../src/config.ts'
import { type ConversationId, newId } from '../../src/protocol/ids.ts'
import { startServer } from '../../src/server/server.ts'
import { newConversation, startRun, TENANT } from '../../test/support/frames.ts'
import { stateIn } from '../../test/support/state.ts'
import { wordFrame } from './store.ts'

const [project = '', given = '{}'] = process.argv.slice(2)
const config = {
  ...readConfig({ project }, { PATH: process.env.PATH, ...stateIn(project) }),
  embedder: 'none',
  tools: { run_command: 'allow' as const },
}
const server = await startServer({ ...config, ...JSON.parse(given), port: 0, logLevel: 'error' })
const conversationId = await newConversation(server.ledger)
const run = await startRun(server.ledger, conversationId)
let peak = 0
let watching: NodeJS.Timeout | undefined

/** Requests from a bench to the server process. */
export type BenchRequest =
  | { type: 'fill'; frames: number }
  | { type: 'stamp'; count: number; everyMs: number }
  | { type: 'memory' }
  | { type: 'active' }
  | { type: 'run'; conversationId: string; content: string }
  | { type: 'stop'; conversationId: string }

const answers: Record<BenchRequest['type'], (request: never) => Promise<unknown>> = {
  async fill({ frames }: { frames: number }) {
    for (let done = 0; done < frames; done += 1000) {
      const batch = Array.from({ length: 1000 }, () => wordFrame())
      await server.ledger.append({ tenant: TENANT, conversationId, run, frames: batch })
    }
  },
  /** Appends frames that contain their append time. */
  async stamp({ count, everyMs }: { count: number; everyMs: number }) {
    for (let index = 0; index < count; index++) {
      const frame = wordFrame(`@${performance.timeOrigin + performance.now()}@`)
      void server.ledger.append({ tenant: TENANT, conversationId, run, frames: [frame] })
      await new Promise((resolve) => setTimeout(resolve, everyMs))
    }
  },
  active: async () => server.activeRuns(),
  /** Returns the time from the message to its terminal frame in milliseconds. */
  async run({ conversationId: id, content }: { conversationId: ConversationId; content: string }) {
    const started = performance.now()
    const ended = runEnd(id)
    await send(id, content)
    await ended
    return performance.now() - started
  },
  /** Returns the time from stopping a running command to the terminal frame. */
  async stop({ conversationId: id }: { conversationId: ConversationId }) {
    await send(id, '!run_command {"command":"echo begun; sleep 60"}')
    await frameLike(id, /"partial":true/)
    const started = performance.now()
    await server.queue.stop({ tenant: TENANT, conversationId: id, by: 'bench' })
    await frameLike(id, /"kind":"final"/)
    return performance.now() - started
  },
  /** Returns the peak since the previous call; the first call starts the sampling. */
  async memory() {
    watching ??= setInterval(() => {
      peak = Math.max(peak, process.memoryUsage.rss())
    }, 5)
    const since = peak
    globalThis.gc?.()
    peak = process.memoryUsage().rss
    return { peak: since, now: peak }
  },
}

async function send(id: ConversationId, content: string): Promise<void> {
  const command = { tenant: TENANT, conversationId: id, content, mayChangeFiles: true }
  await server.queue.enqueue({ ...command, runId: newId('run'), messageId: newId('msg') })
}

/** Resolves when the run leaves the queue, which happens in the transaction that stores its terminal frame. */
function runEnd(id: ConversationId): Promise<void> {
  return new Promise((resolve) => {
    let hasBegun = false
    const unlisten = server.queue.onChange((changed) => {
      if (changed !== id) return
      void server.queue.read(TENANT, id).then(({ active, waiting }) => {
        if (active || waiting.length > 0) hasBegun = true
        else if (hasBegun) {
          unlisten()
          resolve()
        }
      })
    })
  })
}

async function frameLike(id: ConversationId, pattern: RegExp): Promise<void> {
  const stop = new AbortController()
  const query = { tenant: TENANT, conversationId: id, cursor: null, limit: 500 }
  for await (const page of server.ledger.follow(query, stop.signal)) {
    if (page.frames.some((frame) => pattern.test(frame))) return
  }
}

process.on('message', (request: BenchRequest) => {
  void answers[request.type](request as never).then((answer) => process.send?.(answer ?? null))
})
process.send?.({ url: server.url, token: server.token, conversationId })
