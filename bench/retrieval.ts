// How well retrieval finds the right file for a question in this repository's sources: by keywords, by vectors, by both.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLocalEmbedder } from '../src/retrieval/embedders.ts'
import { createRetrieval } from '../src/retrieval/retrieval.ts'
import { createIndexStore } from '../src/stores/chunk-index.ts'
import { createDatabase } from '../src/stores/database.ts'
import { openSqlite } from '../src/stores/sqlite/open.ts'
import { median, milliseconds, report, say, times } from './support/figure.ts'
import { questions } from './support/questions.ts'
import { temporaryFolder } from './support/store.ts'

const SCOPE = 'sources'
const root = fileURLToPath(new URL('..', import.meta.url))
const files = readdirSync(join(root, 'src'), { withFileTypes: true, recursive: true })
  .filter(
    (entry) => entry.isFile() && entry.name.endsWith('.ts') && !/\.(test|contract)\.ts$/.test(entry.name),
  )
  .map((entry) => relative(root, join(entry.parentPath, entry.name)))
const read = (path: string) => readFileSync(join(root, path))
const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

const missing = questions.filter(([, path]) => !files.includes(path))
if (missing.length > 0) throw new Error(`missing files: ${missing.map(([, path]) => path).join(', ')}`)

const { folder, remove } = await temporaryFolder()
const database = createDatabase({ engine: await openSqlite(join(folder, 'index.db')) })
const retrieval = createRetrieval({
  store: createIndexStore(database),
  embedder: createLocalEmbedder(),
  read: async (_, path) => read(path),
  hashes: async (_, paths) => paths.map((path) => hashOf(read(path))),
  log: console,
})
for (const path of files) await retrieval.note(SCOPE, path)
say(`embedding ${files.length} files …`)
await retrieval.embedded()

type Way = 'words' | 'vectors'
async function right(ways: Way[]): Promise<{ first: number; five: number }> {
  let [first, five] = [0, 0]
  for (const [question, path] of questions) {
    const query = { workspace: SCOPE, attachments: [], question, scope: {}, limit: 30, ways }
    const found = [...new Set((await retrieval.search(query)).map((chunk) => chunk.path))].slice(0, 5)
    if (found[0] === path) first++
    if (found.includes(path)) five++
    else if (ways.length === 2) say(`not found: ${question} (${path}); instead ${found.join(', ')}`)
  }
  return { first: first / questions.length, five: five / questions.length }
}

const words = await right(['words'])
const vectors = await right(['vectors'])
const hybrid = await right(['words', 'vectors'])
const shown = ({ first, five }: { first: number; five: number }) => `${first.toFixed(2)} / ${five.toFixed(2)}`

const syncing: number[] = []
for (let round = 0; round < 10; round++) {
  const started = performance.now()
  await retrieval.sync(SCOPE)
  syncing.push(performance.now() - started)
}
await retrieval.close()
await database.close()
await remove()

report([
  {
    figure: `right file first / in the top five, ${questions.length} questions; peer: keywords alone`,
    ours: shown(hybrid),
    peer: shown(words),
    ratio: times(hybrid.five / words.five),
    wanted: 'best, and top five at least 0.85',
    met:
      hybrid.five >= 0.85 &&
      hybrid.five >= words.five &&
      hybrid.five >= vectors.five &&
      hybrid.first >= Math.max(words.first, vectors.first),
  },
  {
    figure: 'right file first / in the top five; peer: vectors alone',
    ours: shown(hybrid),
    peer: shown(vectors),
    ratio: times(hybrid.five / vectors.five),
    wanted: '–',
    met: true,
  },
  {
    figure: `comparing ${files.length} indexed files with the disk; peer: reading and hashing them`,
    ours: milliseconds(median(syncing)),
    peer: milliseconds(
      median(Array.from({ length: 10 }, () => timed(() => files.map((path) => hashOf(read(path)))))),
    ),
    ratio: '–',
    wanted: '–',
    met: true,
  },
])

function timed(work: () => unknown): number {
  const started = performance.now()
  work()
  return performance.now() - started
}
