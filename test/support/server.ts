import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Client, createClient } from '../../src/client/index.ts'
import { type Config, readConfig } from '../../src/config.ts'
import type { Scope } from '../../src/protocol/api/service.ts'
import { type RunningServer, startServer } from '../../src/server/server.ts'
import { openStore } from '../../src/server/store.ts'
import { issueToken } from '../../src/server/tokens.ts'
import { stateIn } from './state.ts'

export type CallInit = Omit<RequestInit, 'headers'> & { headers?: Record<string, string> }

/** A complete server on a free port, with its own project. */
export interface TestServer extends RunningServer {
  config: Config
  client: Client
  /** Sends an authorized request; the path is relative to /api/v1. */
  call(path: string, init?: CallInit): Promise<Response>
  /** Issues a token for another caller. */
  tokenFor(tenant: string, scopes: Scope[]): Promise<string>
}

export async function startTestServer(options: Partial<Config> = {}): Promise<TestServer> {
  const project = options.project ?? (await mkdtemp(join(tmpdir(), 'waymark-project-')))
  const config: Config = {
    ...readConfig({ project }, stateIn(project)),
    // Embedding takes a fifth of a second per chunk, so only tests of semantic search turn it on.
    embedder: 'none',
    port: 0,
    // Test servers for models keep what they are sent, like OpenAI's.
    store: true,
    logLevel: 'silent',
    ...options,
  }
  const server = await startServer(config)
  return {
    ...server,
    config,
    client: createClient({ url: server.url, token: server.token }),
    call: (path, init = {}) =>
      fetch(`${server.url}/api/v1${path}`, {
        ...init,
        headers: { Authorization: `Bearer ${server.token}`, ...init.headers },
      }),
    async tokenFor(tenant, scopes) {
      const store = await openStore(config)
      try {
        return await issueToken(store.tokens, { name: 'test', tenant, scopes, days: null })
      } finally {
        await store.close()
      }
    },
    async close() {
      await server.close()
      if (options.project === undefined) await rm(project, { recursive: true, force: true })
    },
  }
}

export function jsonBody(body: unknown): CallInit {
  return { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }
}
