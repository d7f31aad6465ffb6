import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import type { CollectionReport } from '../protocol/api/upkeep.ts'
import { createApp } from './app.ts'
import type { AppDependencies } from './app-dependencies.ts'
import { type Committed, createMetrics } from './metrics.ts'

export { readWebFiles } from './web-files.ts'

/** How long a stopping server waits for answers that are under way. */
const GRACE_MS = 2000
const HEADERS_MS = 15_000
const REQUEST_MS = 60_000
const MAX_CONNECTIONS = 2000

export interface HttpServer {
  port: number
  /** Counts a committed group of writes in the metrics. */
  committed(group: Committed): void
  /** Counts what the collector has removed. */
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
  // A request that comes in slowly, or only half, is not waited for.
  server.headersTimeout = HEADERS_MS
  server.requestTimeout = REQUEST_MS
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
        // A stream that has ended leaves its connection open for another request, which won't come.
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
