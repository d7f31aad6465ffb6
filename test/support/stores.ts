import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { AgentStates } from '../../src/core/agent-states.ts'
import type { BlobStore } from '../../src/core/blobs.ts'
import type { CollectionStore } from '../../src/core/collection.ts'
import type { Ledger } from '../../src/core/ledger.ts'
import type { Rules } from '../../src/core/questions.ts'
import type { Queue } from '../../src/core/queue.ts'
import type { WorkStore } from '../../src/core/work-sessions.ts'
import { systemClock } from '../../src/server/system-clock.ts'
import { createAgentStates } from '../../src/stores/agent-states.ts'
import { createFolderBlobs } from '../../src/stores/blobs/folder.ts'
import { createCollectionStore } from '../../src/stores/collection.ts'
import { createDatabase, type Database } from '../../src/stores/database.ts'
import type { Engine } from '../../src/stores/engine.ts'
import { createLedger } from '../../src/stores/ledger.ts'
import { openPostgres } from '../../src/stores/postgres/open.ts'
import { createQueue } from '../../src/stores/queue.ts'
import { createRules } from '../../src/stores/rules.ts'
import { openSqlite } from '../../src/stores/sqlite/open.ts'
import { createWorkStore } from '../../src/stores/work-store.ts'
import { createCollector } from '../../src/workers/collector.ts'

/** A separate store for one test, on a real engine. */
export interface TestStore {
  ledger: Ledger
  queue: Queue
  rules: Rules
  states: AgentStates
  work: WorkStore
  engine: Engine
  database: Database
  blobs: BlobStore
  collection: CollectionStore
  /** Collects unreachable events, as if the retention time had passed for everything deleted before `deletedBefore`. */
  collect(deletedBefore?: number, tenant?: string): Promise<void>
  folder: string
  /** Opens the store on separate connections, to simulate another process. */
  openAgain(): Promise<Ledger>
  openQueueAgain(): Promise<{ ledger: Ledger; queue: Queue }>
  close(): Promise<void>
}

export type OpenStore = () => Promise<TestStore>

export const openSqliteStore: OpenStore = () => openStore((folder) => openSqlite(join(folder, 'waymark.db')))

export function openPostgresStore(serverUrl: string): OpenStore {
  return async () => {
    const name = `test_${randomBytes(6).toString('hex')}`
    await onPostgres(serverUrl, `create database ${name}`)
    const store = await openStore(() => openPostgres(`${serverUrl}/${name}`))
    return {
      ...store,
      async close() {
        await store.close()
        await onPostgres(serverUrl, `drop database ${name} with (force)`)
      },
    }
  }
}

async function openStore(open: (folder: string) => Promise<Engine>): Promise<TestStore> {
  const folder = await mkdtemp(join(tmpdir(), 'waymark-test-'))
  const blobs = createFolderBlobs(join(folder, 'blobs'))
  const engine = await open(folder)
  const ledgers: Ledger[] = []
  const onEngine = (one: Engine) => {
    const database = createDatabase({ engine: one })
    const ledger = createLedger({ database, blobs, clock: systemClock })
    ledgers.push(ledger)
    const queue = createQueue({ database, clock: systemClock })
    const work = createWorkStore({ database, clock: systemClock })
    const rules = createRules(database, systemClock)
    return { database, ledger, queue, rules, work, states: createAgentStates({ database }) }
  }
  const own = onEngine(engine)
  const collection = createCollectionStore({ database: own.database, clock: systemClock })
  return {
    ...own,
    engine,
    blobs,
    folder,
    collection,
    async collect(deletedBefore = Date.now() + 1, tenant) {
      const log = { error: () => {}, info: () => {} }
      const clock = { now: () => deletedBefore }
      const dropFiles = () => Promise.resolve(0)
      const parts = { store: collection, blobs, clock, dropFiles, log }
      // With a tenant, other tests may be writing: spare blobs they have put but not yet referenced.
      const isAlone = tenant === undefined
      const times = { retentionMs: isAlone ? 0 : deletedBefore, graceMs: isAlone ? -1000 : 60_000 }
      const whose = { of: tenant ?? null, now: !isAlone }
      await createCollector({ ...parts, ...times }).collect({ by: 'a test', ...whose })
    },
    openAgain: async () => onEngine(await open(folder)).ledger,
    openQueueAgain: async () => onEngine(await open(folder)),
    async close() {
      // Some tests have already closed theirs.
      await Promise.allSettled(ledgers.map((ledger) => ledger.close()))
      await rm(folder, { recursive: true, force: true })
    },
  }
}

export async function onPostgres(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: `${url}/postgres` })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
