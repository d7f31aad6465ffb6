import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { type Client, createClient } from '../../src/client/index.ts'
import { type Config, readConfig } from '../../src/config.ts'
import { verifyLedger } from '../../src/server/offline.ts'
import { startServer } from '../../src/server/server.ts'
import { openStore } from '../../src/server/store.ts'
import { stateIn } from '../support/state.ts'
import { onPostgres } from '../support/stores.ts'

/**
 * Data folders and database dumps written by earlier commits of this repository, each opened with the current code. The
 * file name contains the commit. A new migration gets a fixture from the commit before it.
 */
const fixtures = fileURLToPath(new URL('./fixtures', import.meta.url))
const names = readdirSync(fixtures)
  .filter((name) => name.endsWith('.expected.json'))
  .map((name) => name.replace('.expected.json', ''))
  .sort()

interface Expected {
  workspace_id: string
  conversations: Record<
    string,
    {
      tenant: string
      title: string | null
      events: number
      digest: string
      frames_sha256: string
      checkpoints: string[]
      is_open: boolean
    }
  >
}

let folder: string
let database: string | null
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-upgrade-'))
  database = null
})
afterEach(async () => {
  if (database) await onPostgres(inject('postgresUrl'), `drop database ${database} with (force)`)
  rmSync(folder, { recursive: true, force: true })
})

async function configOf(name: string, expected: Expected): Promise<Config> {
  const archive = name.startsWith('sqlite') ? `${name}.tar.gz` : `${name}.data.tar.gz`
  execFileSync('tar', ['-xzf', join(fixtures, archive), '-C', folder])
  const project = join(folder, name, 'project')
  mkdirSync(project, { recursive: true })
  const config = {
    ...readConfig({ project }, stateIn(project)),
    dataDir: join(folder, name, 'data'),
    workspaceId: expected.workspace_id,
    port: 0,
    logLevel: 'silent' as const,
    embedder: 'none' as const,
    gcMinutes: 1000,
  }
  if (name.startsWith('sqlite')) return config
  database = `test_${randomBytes(6).toString('hex')}`
  await onPostgres(inject('postgresUrl'), `create database ${database}`)
  const databaseUrl = `${inject('postgresUrl')}/${database}`
  // Use a separate connection, since the dump sets the search path.
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  await client.query(gunzipSync(readFileSync(join(fixtures, `${name}.sql.gz`))).toString())
  await client.end()
  return { ...config, databaseUrl }
}

async function framesOf(client: Client, id: string): Promise<string[]> {
  const frames: string[] = []
  for await (const items of client.stream(id, { follow: false })) {
    for (const item of items) if (item.type === 'frame') frames.push(item.text)
  }
  return frames
}

/** The digest of the last event. */
async function digestOf(client: Client, id: string): Promise<string | null> {
  let page = await client.events(id, { limit: 1000 })
  while (page.next_cursor !== null) page = await client.events(id, { limit: 1000, cursor: page.next_cursor })
  return page.digest
}

async function untilIdle(client: Client, id: string): Promise<void> {
  await expect.poll(() => client.queue(id), { timeout: 30_000 }).toMatchObject({ active: null, items: [] })
}

describe('data from other versions', () => {
  it.each(names)(
    '[L4] [L9] opens %s, replays it byte for byte and continues it',
    { timeout: 120_000 },
    async (name) => {
      const expected = JSON.parse(readFileSync(join(fixtures, `${name}.expected.json`), 'utf8')) as Expected
      const config = await configOf(name, expected)
      const store = await openStore(config)
      expect((await verifyLedger(store.upkeep)).flaws).toEqual([])
      await store.close()
      const server = await startServer(config)
      const client = createClient(server)
      const own = Object.entries(expected.conversations).filter(([, one]) => one.tenant === 'default')
      for (const [id, one] of own) {
        const frames = await framesOf(client, id)
        const then = frames.slice(0, one.events)
        expect(then).toHaveLength(one.events)
        expect(createHash('sha256').update(then.join('\n')).digest('hex'), id).toBe(one.frames_sha256)
        if (!one.is_open) expect(await digestOf(client, id), id).toBe(one.digest)
        await expect.poll(async () => (await client.conversation(id)).title).toBe(one.title)
        const { items } = await client.checkpoints(id, { limit: 200 })
        const listed = items.map((item) => item.checkpoint_id)
        if (!one.is_open) expect(listed).toEqual(one.checkpoints)
      }
      const [oldest = ''] = own.find(([, one]) => !one.is_open) ?? []
      const { workspace_id } = await client.conversation(oldest)
      // The earliest conversations have no files; a fork of one has the project's.
      const id = workspace_id === null ? (await client.fork(oldest)).id : oldest
      await client.sendMessage(id, { content: '!write_to_file {"path":"after.txt","content":"after\\n"}' })
      await untilIdle(client, id)
      expect((await framesOf(client, id)).at(-1)).toContain('"status":"completed"')
      expect(readFileSync(join(config.project, 'after.txt'), 'utf8')).toBe('after\n')
      await client.memory(id)
      await client.collect({ now: true })
      await server.close()
    },
  )

  it('rejects data from a newer version with a clear error', async () => {
    const config = {
      ...readConfig({ project: folder }, stateIn(folder)),
      databaseUrl: null,
      dataDir: join(folder, 'data'),
    }
    const store = await openStore(config)
    await store.close()
    const { default: Database } = await import('better-sqlite3')
    const file = new Database(join(config.dataDir, 'waymark.db'))
    file.exec("insert into kysely_migration values ('9999-from-the-future', '2030-01-01')")
    file.close()
    await expect(openStore(config)).rejects.toThrow(/newer version of Waymark.*9999-from-the-future/)
  })
})

describe('migrations', () => {
  it('keep their digests: a released migration is never edited', () => {
    const source = fileURLToPath(new URL('../../src/stores/sql/migrations', import.meta.url))
    const digests = Object.fromEntries(
      readdirSync(source).map((name) => [
        name,
        createHash('sha256')
          .update(readFileSync(join(source, name)))
          .digest('hex')
          .slice(0, 16),
      ]),
    )
    expect(digests).toMatchInlineSnapshot(`
      {
        "0001-ledger.ts": "29163b587336ba00",
        "0002-runs.ts": "a7cafce35b71b285",
        "0003-workspace.ts": "541592aeeeb79c5b",
        "0004-lines.ts": "a44c3d8d3db85e57",
        "0005-context.ts": "9d13781235b17be9",
        "0006-questions.ts": "1a26e828daf48ab0",
        "0007-keep.ts": "2f7402c6f3be894d",
        "0008-growth.ts": "4c1e2250d96105dc",
        "0009-search.ts": "d30c17139a63ce3a",
        "0010-operations.ts": "417a8c4ef3526a88",
        "0011-undone-at.ts": "1372815bc2b3c54e",
      }
    `)
  })
})
