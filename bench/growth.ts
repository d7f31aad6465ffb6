// What a message costs in a conversation of 100, 1,000 and 10,000 messages: stored bytes, time and memory. On both engines.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startPostgres } from '../test/support/postgres-server.ts'
import { startServerProcess } from '../test/support/server-process.ts'
import { dataIn } from '../test/support/state.ts'
import { type Figure, median, milliseconds, report, say, times } from './support/figure.ts'

const SIZES = (process.env.WAYMARK_GROWTH ?? '100,1000,10000').split(',').map(Number)
/** So many messages are measured at each size. */
const MEASURED = 50

interface Cost {
  bytes: number
  ms: number
  memory: number
  context: number
  responses: number
}

const postgres = await startPostgres()
await onServer('create database growth')
const figures: Figure[] = []
for (const engine of ['SQLite', 'Postgres'] as const) {
  const project = mkdtempSync(join(tmpdir(), 'waymark-growth-'))
  const databaseUrl = engine === 'SQLite' ? null : `${postgres.url}/growth`
  const config = { databaseUrl, logLevel: 'silent' as const, gcMinutes: 1000 }
  const server = await startServerProcess(project, { config })
  const { id } = await server.client.createConversation()
  const memory = () => memoryOf(server.process.pid ?? 0)
  const stored = async () => sizeOf(dataIn(project)) + (databaseUrl === null ? 0 : await databaseSize())
  let sent = 0

  async function send(): Promise<number> {
    const started = performance.now()
    await server.client.sendMessage(id, { content: `message ${++sent} of a long conversation` })
    for (;;) {
      const { active, items } = await server.client.queue(id)
      if (!active && items.length === 0) return performance.now() - started
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }

  const costs: Cost[] = []
  for (const size of SIZES) {
    while (sent < size - MEASURED) await send()
    const before = await stored()
    const took: number[] = []
    for (let i = 0; i < MEASURED; i++) took.push(await send())
    const bytes = ((await stored()) - before) / MEASURED
    const context = await timed(() => server.client.context(id))
    const responses = await timed(() => server.client.responses(id, { limit: 50 }))
    costs.push({ bytes, ms: median(took), memory: memory(), context, responses })
    say(`${engine}, ${size} messages: ${JSON.stringify(costs.at(-1))}`)
  }
  const [first] = costs
  for (const [index, cost] of costs.entries()) {
    if (!first || index === 0) continue
    const what = `${engine}, a message after ${SIZES[index]?.toLocaleString('en')}; peer: after ${SIZES[0]}`
    const ratio = (part: keyof Cost) => cost[part] / first[part]
    const row = (name: string, part: keyof Cost, show: (value: number) => string) => ({
      figure: `${name}: ${what}`,
      ours: show(cost[part]),
      peer: show(first[part]),
      ratio: times(ratio(part)),
      wanted: 'at most 1.3×',
      met: ratio(part) <= 1.3,
    })
    figures.push(row('stored bytes', 'bytes', (value) => `${Math.round(value).toLocaleString('en')} B`))
    figures.push(row('median time', 'ms', milliseconds))
    figures.push(row('memory', 'memory', (value) => `${Math.round(value / 2 ** 20)} MB`))
  }
  const last = costs.at(-1)
  if (last) {
    for (const part of ['context', 'responses'] as const) {
      figures.push({
        figure: `${engine}: GET …/${part} after ${SIZES.at(-1)?.toLocaleString('en')} messages`,
        ours: milliseconds(last[part]),
        peer: milliseconds(first?.[part] ?? 0),
        ratio: times(last[part] / (first?.[part] ?? 1)),
        wanted: 'under 50 ms',
        met: last[part] < 50,
      })
    }
  }
  await server.kill()
  rmSync(project, { recursive: true, force: true })
}
await postgres.stop()
report(figures)

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
    // The log before the database is used again and again.
    if (entry.name.endsWith('-wal')) return sum
    return sum + (entry.isDirectory() ? sizeOf(path) : (statSync(path, { throwIfNoEntry: false })?.size ?? 0))
  }, 0)
}

async function onServer(statement: string, database = 'postgres'): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: `${postgres.url}/${database}` })
  await client.connect()
  const { rows } = await client.query(statement)
  await client.end()
  return rows
}

async function databaseSize(): Promise<number> {
  const [row] = await onServer("select pg_database_size('growth') as size")
  return Number(row?.size ?? 0)
}
