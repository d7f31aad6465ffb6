// Cost of a message in conversations of 100, 1,000 and 10,000 messages, on both engines: stored bytes, time and memory.
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import Database from 'better-sqlite3'
import pg from 'pg'
import type { Client } from '../src/client/index.ts'
import { startModelServer } from '../test/support/model-server.ts'
import { startPostgres } from '../test/support/postgres-server.ts'
import { startServerProcess } from '../test/support/server-process.ts'
import { dataIn } from '../test/support/state.ts'
import { type Figure, median, milliseconds, report, say, times } from './support/figure.ts'

const SIZES = (process.env.WAYMARK_GROWTH ?? '100,1000,10000').split(',').map(Number)
/** Messages measured at each size. */
const MEASURED = 50
let count = 0

interface Cost {
  bytes: number
  ms: number
  /** The time in a conversation of 100 messages, measured alternately. */
  peerMs: number
  memory: number
  context: number
  responses: number
}

const postgres = await startPostgres()
/** Runs in this process and is equally fast for any history, so that only the server's own cost is measured. */
const model = await startModelServer([])
const folder = mkdtempSync(join(tmpdir(), 'waymark-growth-'))
const figures: Figure[] = []
await measureSqlite()
await measurePostgres()
await postgres.stop()
await model.close()
rmSync(folder, { recursive: true, force: true })
report(figures)

/** Grows one conversation and exports it at each size, for the other engine. */
async function measureSqlite(): Promise<void> {
  const at = await serve('sqlite', null)
  const { id } = await at.client.createConversation()
  let sent = 0
  const costs: Cost[] = []
  for (const size of SIZES) {
    for (; sent < size - MEASURED; sent++) await send(at, id)
    costs.push(await measure(at, id))
    sent += MEASURED
    say(`SQLite, ${size} messages: ${JSON.stringify(costs.at(-1))}`)
    const archive = Readable.fromWeb((await at.client.export(id)) as never)
    await pipeline(archive, createWriteStream(join(folder, `${size}.tar`)))
  }
  figures.push(...figuresOf('SQLite', costs))
  await at.stop()
}

async function measurePostgres(): Promise<void> {
  const costs: Cost[] = []
  for (const size of SIZES) {
    await onServer(`create database growth_${size}`)
    const at = await serve(`postgres-${size}`, `growth_${size}`)
    const archive = Readable.toWeb(createReadStream(join(folder, `${size}.tar`)))
    const { imported } = await at.client.import(archive as ReadableStream)
    const id = imported[0] ?? ''
    // Warm up: the first message sends the model the whole imported history.
    for (let i = 0; i < 3; i++) await send(at, id)
    costs.push(await measure(at, id))
    say(`Postgres, ${size} messages: ${JSON.stringify(costs.at(-1))}`)
    await at.stop()
  }
  figures.push(...figuresOf('Postgres', costs))
}

interface Served {
  client: Client
  memory(): number
  stored(): Promise<number>
  stop(): Promise<void>
}

async function serve(name: string, database: string | null): Promise<Served> {
  const project = join(folder, name)
  mkdirSync(project)
  const databaseUrl = database === null ? null : `${postgres.url}/${database}`
  const config = {
    databaseUrl,
    baseUrl: model.url,
    store: true,
    logLevel: 'silent' as const,
    gcMinutes: 1000,
  }
  const server = await startServerProcess(project, { config })
  return {
    client: server.client,
    memory: () => memoryOf(server.process.pid ?? 0),
    stored: async () => sizeOf(dataIn(project)) + (database === null ? 0 : await databaseSize(database)),
    stop: () => server.kill(),
  }
}

async function send({ client }: Served, id: string): Promise<number> {
  const started = performance.now()
  await client.sendMessage(id, { content: `message ${++count} of a long conversation` })
  for (;;) {
    const { active, items } = await client.queue(id)
    if (!active && items.length === 0) return performance.now() - started
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/**
 * The machine's speed varies, so messages in the long conversation alternate with messages in one of 100, and only the
 * ratio counts.
 */
async function measure(at: Served, id: string): Promise<Cost> {
  const { id: short } = await at.client.createConversation()
  for (let i = 0; i < MEASURED; i++) await send(at, short)
  const before = await at.stored()
  for (let i = 0; i < MEASURED; i++) await send(at, id)
  const bytes = ((await at.stored()) - before) / MEASURED
  const took: number[] = []
  const peer: number[] = []
  for (let i = 0; i < MEASURED; i++) {
    took.push(await send(at, id))
    peer.push(await send(at, short))
  }
  const context = await timed(() => at.client.context(id))
  const responses = await timed(() => at.client.responses(id, { limit: 50 }))
  return { bytes, ms: median(took), peerMs: median(peer), memory: at.memory(), context, responses }
}

function figuresOf(engine: string, costs: readonly Cost[]): Figure[] {
  const [first] = costs
  const last = costs.at(-1)
  if (!first || !last) return []
  const rows = costs.slice(1).flatMap((cost, index) => {
    const what = `${engine}, a message after ${SIZES[index + 1]?.toLocaleString('en')}`
    const row = (name: string, ours: number, peer: number, show: (value: number) => string) => ({
      figure: `${name}: ${what}`,
      ours: show(ours),
      peer: show(peer),
      ratio: times(ours / peer),
      wanted: 'at most 1.3×',
      met: ours / peer <= 1.3,
    })
    const kilobytes = (value: number) => `${Math.round(value).toLocaleString('en')} B`
    const megabytes = (value: number) => `${Math.round(value / 2 ** 20)} MB`
    return [
      row(`stored bytes; peer: after ${SIZES[0]}`, cost.bytes, first.bytes, kilobytes),
      row('median time; peer: in a conversation of 100, alternating', cost.ms, cost.peerMs, milliseconds),
      row(`memory; peer: after ${SIZES[0]}`, cost.memory, first.memory, megabytes),
    ]
  })
  const reads = (['context', 'responses'] as const).map((part) => ({
    figure: `${engine}: GET …/${part} after ${SIZES.at(-1)?.toLocaleString('en')} messages`,
    ours: milliseconds(last[part]),
    peer: milliseconds(first[part]),
    ratio: times(last[part] / first[part]),
    wanted: 'under 50 ms',
    met: last[part] < 50,
  }))
  return [...rows, ...reads]
}

async function timed(call: () => Promise<unknown>): Promise<number> {
  const took: number[] = []
  for (let i = 0; i < 10; i++) {
    const started = performance.now()
    await call()
    took.push(performance.now() - started)
  }
  return median(took)
}

function memoryOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024
}

function sizeOf(folder: string): number {
  if (!existsSync(folder)) return 0
  return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(folder, entry.name)
    if (/-(wal|shm)$/.test(entry.name)) return sum
    // The file itself grows only when its log is copied into it, 8 MB at a time.
    if (entry.name.endsWith('.db')) return sum + pagesOf(path)
    return sum + (entry.isDirectory() ? sizeOf(path) : (statSync(path, { throwIfNoEntry: false })?.size ?? 0))
  }, 0)
}

/** The size of a SQLite database, its log included. */
function pagesOf(path: string): number {
  const database = new Database(path, { readonly: true })
  try {
    const pages = Number(database.pragma('page_count', { simple: true }))
    return pages * Number(database.pragma('page_size', { simple: true }))
  } finally {
    database.close()
  }
}

async function onServer(statement: string, database = 'postgres'): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: `${postgres.url}/${database}` })
  await client.connect()
  const { rows } = await client.query(statement)
  await client.end()
  return rows
}

async function databaseSize(name: string): Promise<number> {
  const [row] = await onServer(`select pg_database_size('${name}') as size`)
  return Number(row?.size ?? 0)
}
