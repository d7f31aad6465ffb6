// A server in a process of its own, for benches that must not share one with their client. Started by `startBenchServer`.
import { readConfig } from '../../src/config.ts'
import { startServer } from '../../src/main.ts'
import { newConversation, startRun, TENANT } from '../../test/support/frames.ts'
import { wordFrame } from './store.ts'

const [project = ''] = process.argv.slice(2)
const server = await startServer({ ...readConfig({ project }, {}), port: 0, logLevel: 'error' })
const conversationId = await newConversation(server.ledger)
const run = await startRun(server.ledger, conversationId)
let peak = 0

/** What a bench asks of the server. */
export type BenchRequest =
  | { type: 'fill'; frames: number }
  | { type: 'stamp'; count: number; everyMs: number }
  | { type: 'memory' }

const answers: Record<BenchRequest['type'], (request: never) => Promise<unknown>> = {
  async fill({ frames }: { frames: number }) {
    for (let done = 0; done < frames; done += 1000) {
      const batch = Array.from({ length: 1000 }, () => wordFrame())
      await server.ledger.append({ tenant: TENANT, conversationId, run, frames: batch })
    }
  },
  /** Appends frames that carry the moment they were appended. */
  async stamp({ count, everyMs }: { count: number; everyMs: number }) {
    for (let index = 0; index < count; index++) {
      const frame = wordFrame(`@${performance.timeOrigin + performance.now()}@`)
      void server.ledger.append({ tenant: TENANT, conversationId, run, frames: [frame] })
      await new Promise((resolve) => setTimeout(resolve, everyMs))
    }
  },
  async memory() {
    const since = peak
    globalThis.gc?.()
    peak = process.memoryUsage().rss
    return { peak: since, now: peak }
  },
}

setInterval(() => {
  peak = Math.max(peak, process.memoryUsage().rss)
}, 5).unref()
process.on('message', (request: BenchRequest) => {
  void answers[request.type](request as never).then((answer) => process.send?.(answer ?? null))
})
process.send?.({ url: server.url, token: server.token, conversationId })
