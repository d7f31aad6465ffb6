import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { extract, type Header, pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Client, createClient } from '../../src/client/index.ts'
import { type Config, readConfig } from '../../src/config.ts'
import type { ImportProgress } from '../../src/protocol/api/transfer.ts'
import { verifyLedger } from '../../src/server/offline.ts'
import { type RunningServer, startServer } from '../../src/server/server.ts'
import { openStore } from '../../src/server/store.ts'
import { framesOf, ofKind } from '../support/runs.ts'
import { newBucket } from '../support/s3-server.ts'
import { stateIn } from '../support/state.ts'
import { onPostgres } from '../support/stores.ts'

const s3 = inject('s3')
const LARGE = 'ü'.repeat(900_000)

let folder: string
const databases: string[] = []
const running: RunningServer[] = []
let source: { server: RunningServer; client: Client; config: Config }
let ids: { root: string; fork: string; copy: string }
let file: Buffer

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-transfer-'))
  source = await serving('source', {})
  ids = await makeFamily(source.client, source.config.project)
  file = await exported(source.client, ids.fork)
}, 120_000)
afterAll(async () => {
  for (const one of running) await one.close()
  for (const name of databases) await onPostgres(inject('postgresUrl'), `drop database ${name} with (force)`)
  await rm(folder, { recursive: true, force: true })
})

async function newDatabase(): Promise<string> {
  const name = `test_${randomBytes(6).toString('hex')}`
  await onPostgres(inject('postgresUrl'), `create database ${name}`)
  databases.push(name)
  return `${inject('postgresUrl')}/${name}`
}

async function serving(name: string, more: Partial<Config>) {
  const project = join(folder, `${name}-project`)
  await mkdir(project, { recursive: true })
  const config: Config = {
    ...readConfig({ project }, { ...stateIn(join(folder, name)), PATH: process.env.PATH }),
    dataDir: join(folder, `${name}-data`),
    workspaceId: `Project.${name}`,
    hasWorkspaceId: true,
    port: 0,
    logLevel: 'silent',
    embedder: 'none',
    gcMinutes: 1000,
    ...more,
  }
  const server = await startServer(config)
  running.push(server)
  return { server, client: createClient(server), config }
}

async function say(client: Client, id: string, content: string): Promise<void> {
  const before = ofKind(await framesOf(client, id), 'final').length
  await client.sendMessage(id, { content })
  for (const until = Date.now() + 30_000; Date.now() < until; ) {
    if (ofKind(await framesOf(client, id), 'final').length > before) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error('no answer within 30 s')
}

/** A family with tools, files, a large message, a fork in the middle, a fork with copied files, and a deleted message. */
async function makeFamily(client: Client, project: string) {
  await writeFile(join(project, 'one.txt'), 'first')
  const { id: root } = await client.createConversation({ title: 'The basket' })
  await say(client, root, 'my name is Ada')
  await say(client, root, '!write_to_file {"path":"one.txt","content":"second"}')
  await say(client, root, LARGE)
  const { items } = await client.messages(root)
  const third = items.filter((one) => one.role === 'user')[2]
  const { id: fork } = await client.fork(root, { message_id: third?.message_id ?? '' })
  await say(client, fork, '!write_to_file {"path":"two.txt","content":"of the fork"}')
  const { id: copy } = await client.fork(root, { files: 'copy' })
  await say(client, copy, '!write_to_file {"path":"three.txt","content":"of the copy"}')
  await say(client, root, 'a secret that is deleted')
  const last = (await client.messages(root)).items.findLast((one) => one.role === 'user')
  await client.deleteMessage(root, last?.message_id ?? '')
  return { root, fork, copy }
}

async function exported(client: Client, id: string): Promise<Buffer> {
  return await buffer(Readable.fromWeb((await client.export(id)) as never))
}

function imported(client: Client, archive: Buffer, steps: ImportProgress[] = []) {
  const body = Readable.toWeb(Readable.from([archive])) as ReadableStream
  return client.import(body, { onProgress: (progress) => steps.push(progress) })
}

/** The raw event pages of a conversation, with their digests. */
async function ledgerOf({ url, token }: RunningServer, id: string): Promise<string> {
  const pages: string[] = []
  for (let cursor = ''; ; ) {
    const query = new URLSearchParams({ limit: '1000', ...(cursor ? { cursor } : {}) })
    const response = await fetch(`${url}/api/v1/conversations/${id}/ledger/events?${query}`, {
      headers: { Authorization: `Bearer ${token}` },
    })
    const text = await response.text()
    const { next_cursor, items } = JSON.parse(text) as { next_cursor: string | null; items: unknown[] }
    pages.push(text)
    if (next_cursor === null || items.length === 0) return pages.join('\n')
    cursor = next_cursor
  }
}

const places: [string, () => Promise<Partial<Config>>][] = [
  ['SQLite', async () => ({})],
  ['Postgres', async () => ({ databaseUrl: await newDatabase() })],
  ...('missing' in s3
    ? []
    : [
        [
          'Postgres and S3',
          async () => ({ databaseUrl: await newDatabase(), objectStorage: await newBucket(s3) }),
        ] as [string, () => Promise<Partial<Config>>],
      ]),
]

describe.each(places)('importing a family from SQLite to %s', (name, place) => {
  it('[L4] [L9] keeps every frame, digest and file, and imports it only once', {
    timeout: 120_000,
  }, async () => {
    const { server, client, config } = await serving(name.replaceAll(' ', '-'), await place())
    const steps: ImportProgress[] = []
    const report = await imported(client, file, steps)
    expect(steps[0]).toEqual({ step: 'checking', events: 0, of: 0 })
    expect(steps.at(-1)).toEqual({ step: 'checkpoints', events: report.events, of: report.events })
    expect(report.imported.toSorted()).toEqual(Object.values(ids).toSorted())
    for (const id of Object.values(ids)) {
      expect(await ledgerOf(server, id)).toBe(await ledgerOf(source.server, id))
      const [here, there] = [await client.responses(id), await source.client.responses(id)]
      expect(here).toEqual(there)
      for (const { response_id: responseId } of here.items) {
        expect(await client.response(id, responseId)).toEqual(await source.client.response(id, responseId))
      }
    }
    const tree = await client.tree(ids.root)
    expect(JSON.stringify(tree)).toContain(ids.copy)

    // A second import adds nothing.
    const again = await imported(client, file)
    expect(again).toMatchObject({ imported: [], events: 0 })
    expect(again.present).toHaveLength(3)

    // Checkpoint files, the model's memory and the copy's folder were imported, too.
    const [first] = ofKind(await framesOf(client, ids.root), 'message.user')
    await client.restore(ids.root, { checkpoint_id: first?.checkpoint_id ?? '' })
    expect(readFileSync(join(config.project, 'one.txt'), 'utf8')).toBe('first')
    await say(client, ids.fork, 'what is my name?')
    expect(ofKind(await framesOf(client, ids.fork), 'final').at(-1)?.final.response_text).toContain('Ada')
    const inCopy = join(config.dataDir, 'workspaces', ids.copy, 'three.txt')
    expect(await readFile(inCopy, 'utf8')).toBe('of the copy')

    // A conversation that has continued since the export is left unchanged.
    expect(await imported(client, file)).toMatchObject({ imported: [], events: 0 })
    await server.close()
    running.splice(running.indexOf(server), 1)
    const store = await openStore(config)
    const verified = await verifyLedger(store.upkeep)
    await store.close()
    expect(verified).toMatchObject({ flaws: [], damaged: [] })
  })
})

describe('an export', () => {
  it('[D1] contains no deleted messages', () => {
    expect(file.includes('a secret that is deleted')).toBe(false)
  })

  it('round-trips through Postgres back to SQLite byte for byte', { timeout: 120_000 }, async () => {
    const middle = await serving('middle', { databaseUrl: await newDatabase() })
    await imported(middle.client, file)
    const back = await serving('back', {})
    await imported(back.client, await exported(middle.client, ids.copy))
    for (const id of Object.values(ids)) {
      expect(await ledgerOf(back.server, id)).toBe(await ledgerOf(source.server, id))
    }
  })

  it('rejects a token without the admin scope, and another tenant', async () => {
    const { url } = source.server
    const store = await openStore(source.config)
    const { issueToken } = await import('../../src/server/tokens.ts')
    const wanted = { name: 'x', days: null }
    const reader = await issueToken(store.tokens, {
      ...wanted,
      tenant: 'default',
      scopes: ['conversations:read'],
    })
    const other = await issueToken(store.tokens, { ...wanted, tenant: 'other', scopes: ['admin'] })
    await store.close()
    await expect(createClient({ url, token: reader }).export(ids.root)).rejects.toMatchObject({
      code: 'missing_scope',
    })
    await expect(imported(createClient({ url, token: reader }), file)).rejects.toMatchObject({
      code: 'missing_scope',
    })
    await expect(createClient({ url, token: other }).export(ids.root)).rejects.toMatchObject({
      code: 'conversation_not_found',
    })
    await expect(imported(createClient({ url, token: other }), file)).rejects.toMatchObject({
      code: 'import_conflict',
    })
  })
})

describe('import without an event stream', () => {
  it('responds with the report, or with a problem and its status', async () => {
    const target = await serving('plain', {})
    const post = (body: Buffer) =>
      fetch(`${target.server.url}/api/v1/import`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${target.server.token}`, 'Content-Type': 'application/x-tar' },
        body: new Uint8Array(body),
      })
    expect((await post(file.subarray(0, 1000))).status).toBe(400)
    const answer = await post(file)
    expect(answer.status).toBe(200)
    expect(await answer.json()).toMatchObject({ present: [] })
  })
})

describe('[T7] importing a hostile file', () => {
  let target: Awaited<ReturnType<typeof serving>>
  beforeAll(async () => {
    target = await serving('target', {})
  })

  /** Changes entries of the archive and recomputes `end.json` to match. */
  async function changed(change: (name: string, content: Buffer) => Buffer | null): Promise<Buffer> {
    const { createHash } = await import('node:crypto')
    const digest = createHash('sha256')
    const out = pack()
    let entries = 0
    const done = buffer(out)
    const reader = extract()
    Readable.from([file]).pipe(reader as never)
    for await (const entry of reader as unknown as AsyncIterable<Readable & { header: Header }>) {
      const { name } = entry.header
      let content: Buffer | null = await buffer(entry)
      if (name === 'end.json') {
        const end = { ...JSON.parse(content.toString()), entries, sha256: digest.digest('hex') }
        content = Buffer.from(JSON.stringify(end))
      } else {
        content = change(name, content)
        if (!content) continue
        entries++
        digest.update(`${name}\0${createHash('sha256').update(content).digest('hex')}\n`)
      }
      out.entry({ name }, content)
    }
    out.finalize()
    return await done
  }

  async function isRefused(archive: Buffer, why: RegExp): Promise<void> {
    await expect(imported(target.client, archive)).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringMatching(why),
    })
    expect((await target.client.listConversations()).items).toEqual([])
  }

  it('rejects an archive truncated at any point', async () => {
    for (const part of [0.1, 0.5, 0.9, 0.999]) {
      await isRefused(file.subarray(0, Math.floor(file.length * part)), /incomplete|not a tar|damaged/)
    }
    await isRefused(Buffer.from('hello'), /incomplete|not a tar|damaged/)
  })

  it('rejects an archive with a changed byte', async () => {
    const at = file.indexOf('my name is Ada')
    const other = Buffer.from(file)
    other.write('B', at + 11)
    await isRefused(other, /incomplete|changed/)
  })

  it('rejects frames that do not match their digest, even when end.json matches', async () => {
    const other = await changed((name, content) =>
      name.startsWith('events/')
        ? Buffer.from(content.toString().replace('my name is Ada', 'my name is Bob'))
        : content,
    )
    await isRefused(other, /do not match their digest/)
  })

  it('rejects missing blobs and blobs with the wrong content', async () => {
    const without = await changed((name, content) => (name.startsWith('blobs/') ? null : content))
    await isRefused(without, /is missing/)
    const { gzipSync } = await import('node:zlib')
    const other = await changed((name, content) => (name.startsWith('blobs/') ? gzipSync('else') : content))
    await isRefused(other, /does not match its hash/)
    // A decompression bomb, larger than any frame.
    const bomb = gzipSync(Buffer.alloc(300 * 1024 * 1024))
    await isRefused(
      await changed((name, content) => (name.startsWith('blobs/') ? bomb : content)),
      /does not match its hash/,
    )
  })

  it('rejects unknown entries and an inconsistent export.json', async () => {
    const named = await changed((_, content) => content)
    const renamed = Buffer.from(named)
    const at = renamed.indexOf('rows/000001.jsonl')
    renamed.write('../a/b/c/d/e/f.js', at)
    await isRefused(renamed, /unexpected entry|not a tar|damaged/)
    for (const change of [
      { conversations: [] },
      { version: 2 },
      { segments: [] },
      { conversation_id: '../../etc' },
    ]) {
      const other = await changed((name, content) =>
        name === 'export.json'
          ? Buffer.from(JSON.stringify({ ...JSON.parse(content.toString()), ...change }))
          : content,
      )
      await isRefused(other, /has an unexpected format/)
    }
  })

  it('rejects agent states that would deserialize to class instances', async () => {
    const other = await changed((name, content) => {
      if (!name.startsWith('rows/')) return content
      const lines = content.toString().trim().split('\n')
      const planted = Buffer.from(JSON.stringify({ lc: 1, type: 'constructor', id: ['x'], kwargs: {} }))
      const hostile = lines.map((line) => {
        const rows = JSON.parse(line) as { table: string; row: Record<string, unknown> }[]
        for (const one of rows) if (one.table === 'agent_values') one.row.value = planted.toString('base64')
        return JSON.stringify(rows)
      })
      return Buffer.from(`${hostile.join('\n')}\n`)
    })
    await isRefused(other, /not plain data/)
  })

  it('rejects an invalid bundle and a bundle that lacks a checkpoint', async () => {
    const junk = await changed((name, content) =>
      name === 'checkpoints.bundle' ? Buffer.from('junk') : content,
    )
    await isRefused(junk, /not a git bundle/)
    const without = await changed((name, content) => (name === 'checkpoints.bundle' ? null : content))
    await expect(imported(target.client, without)).rejects.toMatchObject({ code: 'invalid_request' })
    expect((await target.client.listConversations()).items).toEqual([])
  })

  it('imports the genuine file after all of these', async () => {
    expect((await imported(target.client, file)).imported).toHaveLength(3)
    for (const id of Object.values(ids)) {
      expect(await ledgerOf(target.server, id)).toBe(await ledgerOf(source.server, id))
    }
  })
})
