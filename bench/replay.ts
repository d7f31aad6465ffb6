// A long conversation replayed over HTTP, against the same bytes served from a file by a bare Node server.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, writeFileSync } from 'node:fs'
import { createServer, get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { median, milliseconds, report, say, times } from './support/figure.ts'
import { startBenchServer } from './support/start-bench-server.ts'
import { temporaryFolder } from './support/store.ts'

const FRAMES = 100_000
const ROUNDS = 5
const MEGABYTE = 1e6

if (process.argv[2] === 'file-server') await serveFile(process.argv[3] ?? '')
else await bench()

async function bench(): Promise<void> {
  const server = await startBenchServer()
  say(`storing ${FRAMES.toLocaleString('en')} frames …`)
  await server.ask({ type: 'fill', frames: FRAMES })
  const url = `${server.url}/api/v1/conversations/${server.conversationId}/ledger/stream?follow=false`
  const headers = { Authorization: `Bearer ${server.token}` }
  const { bytes } = await download(url, headers)
  const { folder, remove } = await temporaryFolder()
  const peer = await startFileServer(join(folder, 'same-bytes'), bytes)

  // Wait until the server's initial file scan is over, which is not part of the replay.
  await new Promise((resolve) => setTimeout(resolve, 2500))
  const { now: before } = await server.ask<{ now: number }>({ type: 'memory' })
  const own: Awaited<ReturnType<typeof download>>[] = []
  const file: Awaited<ReturnType<typeof download>>[] = []
  for (let round = 1; round <= ROUNDS; round++) {
    own.push(await download(url, headers))
    file.push(await download(peer.url, {}))
    say(`round ${round}: ${megabytes(own.at(-1)?.rate ?? 0)} against ${megabytes(file.at(-1)?.rate ?? 0)}`)
  }
  const { peak } = await server.ask<{ peak: number }>({ type: 'memory' })
  peer.stop()
  await server.stop()
  await remove()

  const rate = median(own.map((one) => one.rate))
  const peerRate = median(file.map((one) => one.rate))
  const first = median(own.map((one) => one.firstByteMs))
  const peerFirst = median(file.map((one) => one.firstByteMs))
  const extra = (peak - before) / MEGABYTE
  report([
    {
      figure: `replay of ${FRAMES.toLocaleString('en')} frames over HTTP; peer: the same bytes from a file, bare Node`,
      ours: megabytes(rate),
      peer: megabytes(peerRate),
      ratio: times(rate / peerRate),
      wanted: 'at least 40 MB/s',
      met: rate >= 40,
    },
    {
      figure: 'first byte of that replay',
      ours: milliseconds(first),
      peer: milliseconds(peerFirst),
      ratio: times(first / peerFirst),
      wanted: 'within 20 ms',
      met: first <= 20,
    },
    {
      figure: 'extra server memory during that replay; peer: the bytes sent',
      ours: `${extra.toFixed(0)} MB`,
      peer: `${(bytes / MEGABYTE).toFixed(0)} MB`,
      ratio: times(extra / (bytes / MEGABYTE)),
      wanted: 'under 64 MB',
      met: extra < 64,
    },
  ])
}

interface Download {
  bytes: number
  rate: number
  firstByteMs: number
}

function download(url: string, headers: Record<string, string>): Promise<Download> {
  return new Promise((resolve, reject) => {
    const started = performance.now()
    get(url, { headers, agent: false }, (response) => {
      let bytes = 0
      let firstByteMs = 0
      response.on('data', (chunk: Buffer) => {
        if (bytes === 0) firstByteMs = performance.now() - started
        bytes += chunk.length
      })
      response.on('end', () => {
        const seconds = (performance.now() - started) / 1000
        resolve({ bytes, rate: bytes / MEGABYTE / seconds, firstByteMs })
      })
    }).on('error', reject)
  })
}

async function startFileServer(path: string, bytes: number) {
  writeFileSync(path, Buffer.alloc(bytes, 'x'))
  const child = fork(fileURLToPath(import.meta.url), ['file-server', path])
  const [url] = (await once(child, 'message')) as [string]
  return { url, stop: () => child.kill('SIGKILL') }
}

async function serveFile(path: string): Promise<void> {
  const server = createServer((_, response) => createReadStream(path).pipe(response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
}

function megabytes(rate: number): string {
  return `${Math.round(rate)} MB/s`
}
