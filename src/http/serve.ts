import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { createApp } from './app.ts'
import type { AppDependencies } from './env.ts'
import { createLog } from './log.ts'
import { createMetrics } from './metrics.ts'

export interface HttpServer {
  port: number
  /** Counts a committed group of writes in the metrics. */
  committed(group: { frames: number; seconds: number }): void
  close(): Promise<void>
}

export interface HttpOptions extends Omit<AppDependencies, 'log' | 'metrics' | 'stopping'> {
  host: string
  port: number
  logLevel: string
}

export async function serveHttp({ host, port, logLevel, ...deps }: HttpOptions): Promise<HttpServer> {
  const metrics = createMetrics()
  const stopping = new AbortController()
  const app = createApp({ ...deps, metrics, log: createLog(logLevel), stopping: stopping.signal })
  const server = createAdaptorServer({ fetch: app.fetch })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  return {
    port: (server.address() as AddressInfo).port,
    committed: metrics.committed,
    close() {
      stopping.abort()
      return new Promise((resolve) => {
        server.close(() => resolve())
        if ('closeIdleConnections' in server) server.closeIdleConnections()
      })
    },
  }
}
