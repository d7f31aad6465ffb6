// Delay from an append to the reader's socket, with 100 readers of one conversation.
import { get, type IncomingMessage } from 'node:http'
import { median, milliseconds, report, say, times } from './support/figure.ts'
import { startBenchServer } from './support/start-bench-server.ts'

const READERS = 100
const FRAMES = 500
const EVERY_MS = 10

const server = await startBenchServer()
const one = await measure(1)
say(`1 reader: p50 ${milliseconds(median(one))}`)
const many = await measure(READERS)
const p99 = [...many].sort((a, b) => a - b)[Math.floor(many.length * 0.99)] ?? Number.NaN
say(`${READERS} readers: p50 ${milliseconds(median(many))}, p99 ${milliseconds(p99)}`)
await server.stop()

report([
  {
    figure: `append → SSE client, p50, ${READERS} readers (p99 ${milliseconds(p99)}); peer: 1 reader`,
    ours: milliseconds(median(many)),
    peer: milliseconds(median(one)),
    ratio: times(median(many) / median(one)),
    wanted: 'under 5 ms',
    met: median(many) < 5,
  },
])

async function measure(readers: number): Promise<number[]> {
  const delays: number[] = []
  const wanted = readers * FRAMES
  const responses = await Promise.all(Array.from({ length: readers }, () => connect()))
  const all = new Promise<void>((resolve) => {
    for (const response of responses) {
      let rest = ''
      response.on('data', (chunk: string) => {
        const now = performance.timeOrigin + performance.now()
        const pieces = (rest + chunk).split('\n\n')
        rest = pieces.pop() ?? ''
        for (const piece of pieces) {
          const stamp = /@([\d.]+)@/.exec(piece)?.[1]
          if (stamp !== undefined) delays.push(now - Number(stamp))
        }
        if (delays.length === wanted) resolve()
      })
    }
  })
  await server.ask({ type: 'stamp', count: FRAMES, everyMs: EVERY_MS })
  await all
  for (const response of responses) response.destroy()
  return delays
}

/** Connects a reader at the head, so that it receives only new frames. */
async function connect(): Promise<IncomingMessage> {
  const cursor = await headCursor()
  return await new Promise((resolve, reject) => {
    get(
      `${server.url}/api/v1/conversations/${server.conversationId}/ledger/stream?cursor=${cursor}`,
      { headers: { Authorization: `Bearer ${server.token}` }, agent: false },
      (response) => {
        response.setEncoding('utf8')
        resolve(response)
      },
    ).on('error', reject)
  })
}

async function headCursor(): Promise<string> {
  let cursor = ''
  for (;;) {
    const query = cursor ? `&cursor=${cursor}` : ''
    const response = await fetch(
      `${server.url}/api/v1/conversations/${server.conversationId}/ledger/events?limit=1000${query}`,
      { headers: { Authorization: `Bearer ${server.token}` } },
    )
    const page = (await response.json()) as { next_cursor: string | null; last_cursor: string }
    cursor = page.last_cursor
    if (page.next_cursor === null) return cursor
  }
}
