import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createBoundedFetch } from './bounded-fetch.ts'

/** The chunks that the server sends, in order. */
let chunks: Buffer[] = []
const server = createServer((_, answer) => {
  answer.writeHead(200, { 'Content-Type': 'text/event-stream' })
  void send(answer)
})

async function send(answer: ServerResponse): Promise<void> {
  for (const chunk of chunks) {
    answer.write(chunk)
    await setTimeout(2)
  }
  answer.end()
}

let url = ''

beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})

afterAll(() => void server.close())

async function received(sent: Buffer[], eventBytes = 1000): Promise<string[]> {
  chunks = sent
  const answer = await createBoundedFetch({ limits: { eventBytes } })(url)
  const texts: string[] = []
  for await (const chunk of answer.body ?? []) texts.push(Buffer.from(chunk).toString())
  return texts
}

describe('an event stream', () => {
  it.each(['\n', '\r\n', '\r'])(
    'is delivered one event at a time, whatever the chunk size (line end %j)',
    async (line) => {
      const events = ['data: one', `event: x${line}data: two`, 'data: ü', ': comment'].map(
        (text) => text + line + line,
      )
      const bytes = Buffer.from(`${events.join('')}data: no end`)
      for (const size of [1, 2, 3, 7, bytes.length]) {
        const cut = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
          bytes.subarray(i * size, (i + 1) * size),
        )
        expect(await received(cut), `chunks of ${size}`).toEqual([...events, 'data: no end'])
      }
    },
  )

  it('[T7] may exceed the event limit in total', async () => {
    const events = Array.from({ length: 500 }, (_, i) => `data: ${i} ${'x'.repeat(80)}\n\n`)
    expect((await received([Buffer.from(events.join(''))], 100)).join('')).toBe(events.join(''))
  })

  it.each([
    ['in one chunk', [Buffer.from(`data: ${'x'.repeat(100)}\n\n`)]],
    ['in many chunks', Array.from({ length: 110 }, () => Buffer.from('x'))],
  ])('[T7] fails at an event over the limit, %s', async (_, sent) => {
    await expect(received(sent, 100)).rejects.toThrow('exceeds the size limit')
  })
})

describe('a redirect', () => {
  it.each([301, 302, 303, 307, 308])(
    '[T7] to another origin is refused, and nothing is sent there: %i',
    async (status) => {
      const heard: string[] = []
      const elsewhere = createServer((request, answer) => {
        heard.push(request.url ?? '')
        answer.end('{}')
      })
      elsewhere.listen(0, '127.0.0.1')
      await once(elsewhere, 'listening')
      const target = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/stolen`
      const leading = createServer((_, answer) => void answer.writeHead(status, { Location: target }).end())
      leading.listen(0, '127.0.0.1')
      await once(leading, 'listening')
      const from = `http://127.0.0.1:${(leading.address() as AddressInfo).port}/`
      const sent = createBoundedFetch()(from, { method: 'POST', body: 'secret' })
      await expect(sent).rejects.toThrow('redirects to another address')
      expect(heard).toEqual([])
      leading.close()
      elsewhere.close()
    },
  )
})
