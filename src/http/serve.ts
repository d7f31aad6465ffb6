import type { IncomingMessage, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import type { CollectionReport } from '../protocol/api/upkeep.ts'
import { createApp } from './app.ts'
import type { AppDependencies } from './app-dependencies.ts'
import { type Committed, createMetrics } from './metrics.ts'

export { readWebFiles } from './web-files.ts'

/** How long a stopping server waits for requests in flight. */
const GRACE_MS = 2000
const HEADERS_MS = 15_000
/** Time limit for receiving a whole request. */
const REQUEST_MS = 60_000
/** Idle limit for uploads that have no limit on their total time. */
const SILENCE_MS = 30_000
const MAX_CONNECTIONS = 2000

export interface HttpServer {
  port: number
  /** Counts a committed group of writes in the metrics. */
  committed(group: Committed): void
  /** Counts a collection in the metrics. */
  collected(report: CollectionReport, seconds: number): void
  close(): Promise<void>
}

export interface HttpOptions extends Omit<AppDependencies, 'metrics' | 'stopping'> {
  host: string
  port: number
}

export async function serveHttp({ host, port, ...deps }: HttpOptions): Promise<HttpServer> {
  const metrics = createMetrics(() => deps.queue.depths())
  const stopping = new AbortController()
  const app = createApp({ ...deps, metrics, stopping: stopping.signal })
  const server = createAdaptorServer({ fetch: app.fetch }) as Server
  server.headersTimeout = HEADERS_MS
  // Node has one limit for all requests, but an import may take longer; `limitUpload` sets a limit per request.
  server.requestTimeout = 0
  server.prependListener('request', limitUpload)
  server.maxConnections = MAX_CONNECTIONS
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    committed: metrics.committed,
    collected: metrics.collected,
    close() {
      stopping.abort()
      return new Promise((resolve) => {
        const force = setTimeout(() => server.closeAllConnections(), GRACE_MS)
        // An ended stream leaves its keep-alive connection open, and no other request will use it.
        const tidy = setInterval(() => server.closeIdleConnections(), 20)
        server.close(() => {
          clearTimeout(force)
          clearInterval(tidy)
          resolve()
        })
      })
    },
  }
}

/** Closes the connection of a request whose body arrives too slowly or never completes. */
function limitUpload(request: IncomingMessage): void {
  const { socket, url = '' } = request
  // Imports and gateway requests have no total time limit while bytes keep arriving.
  const isImport = ['/api/v1/import', '/api/v1/sessions'].includes(url.split('?')[0] ?? '')
  const isLong = isImport || url.startsWith('/gateway/')
  let seen = socket.bytesRead
  const timer = setInterval(
    () => {
      if (request.complete || socket.destroyed) return clearInterval(timer)
      if (isLong && socket.bytesRead > seen) seen = socket.bytesRead
      else socket.destroy()
    },
    isLong ? SILENCE_MS : REQUEST_MS,
  )
  timer.unref()
  request.once('close', () => clearInterval(timer))
}
