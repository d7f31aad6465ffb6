// The work between a message and the model request: comparing indexed files with the disk, retrieval, planning.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Entry, noneEarlier, planRequest } from '../src/core/request-plan.ts'
import { createRetrieval } from '../src/retrieval/retrieval.ts'
import { createIndexStore } from '../src/stores/chunk-index.ts'
import { createDatabase } from '../src/stores/database.ts'
import { openSqlite } from '../src/stores/sqlite/open.ts'
import { openWorkspaceThread } from '../src/workspace/workspace-thread.ts'
import { median, milliseconds, report, say, times } from './support/figure.ts'
import { temporaryFolder } from './support/store.ts'

const FILES = 1000
const CHUNKS_A_FILE = 5
const ENTRIES = 400
const ROUNDS = 20
const SCOPE = 'bench'

const { folder, remove } = await temporaryFolder()
const [root, dataDir] = [join(folder, 'project'), join(folder, 'data')]
for (const path of [root, dataDir]) mkdirSync(path)
const words =
  'ledger frame segment line cut fork run queue lease worker agent tool outcome epoch transcript projection blob script response workspace'.split(
    ' ',
  )
const word = (n: number) => words[n % words.length] ?? ''
const paths = Array.from({ length: FILES }, (_, n) => `f${n}.ts`)
for (const [n, path] of paths.entries()) {
  const lines = Array.from(
    { length: CHUNKS_A_FILE * 16 },
    (_, at) => `const ${word(n + at)}${at} = ${word(at * 7 + n)}(${n}, '${word(n * at)}') // ${word(at)}`,
  )
  writeFileSync(join(root, path), lines.join('\n'))
}
const thread = openWorkspaceThread({
  root,
  dataDir,
  include: [],
  exclude: [],
  maxFileBytes: 1e7,
  watch: false,
  umask: 0o022,
  path: process.env.PATH ?? '',
})
const database = createDatabase({ engine: await openSqlite(join(dataDir, 'index.db')) })
const store = createIndexStore(database)
const { readFile } = await import('node:fs/promises')
const retrieval = createRetrieval({
  store,
  embedder: null,
  read: (_, path) => readFile(join(root, path)),
  hashes: (_, some) => thread.hashes(some),
  log: console,
})
say(`indexing ${FILES} files …`)
for (const path of paths) await retrieval.note(SCOPE, path)

const entries: Entry[] = Array.from({ length: ENTRIES }, (_, n) => ({
  item: { role: n % 2 === 0 ? 'user' : 'assistant', content: `${word(n)} `.repeat(50) },
  turn: `msg_${n >> 1}`,
  tokens: 60,
}))
const asked = {
  item: { role: 'user', content: 'where is the lease of a worker renewed?' },
  turn: 'msg_last',
  tokens: 10,
}
const syncing: number[] = []
const assembling: number[] = []
for (let round = 0; round < ROUNDS; round++) {
  let started = performance.now()
  if ((await retrieval.sync(SCOPE)) !== 0) throw new Error('sync found changes in unchanged files')
  syncing.push(performance.now() - started)
  started = performance.now()
  const question = `where is the ${word(round)} of a ${word(round + 3)} renewed, and which ${word(round + 5)} has it?`
  const chunks = await retrieval.search({ workspace: SCOPE, attachments: [], question, scope: {}, limit: 6 })
  if (chunks.length !== 6) throw new Error('expected 6 snippets')
  planRequest({
    entries: [...entries, asked],
    earlier: noneEarlier,
    turn: 'msg_last',
    surroundings: { files: [], skipped: [], chunks },
    chain: { responseId: 'r', at: 0, model: 'm', provider: null, entries: ENTRIES, files: {}, chunks: [] },
    now: 1,
    model: 'm',
    provider: null,
    isKept: true,
    sendable: (item: object) => item,
  })
  assembling.push(performance.now() - started)
}
const chunkCount = (await store.unembedded('nobody', 1_000_000)).length
await thread.close()
await database.close()
await remove()

report([
  {
    figure: `comparing ${FILES.toLocaleString('en')} unchanged indexed files with the disk; peer: the slowest of ${ROUNDS}`,
    ours: milliseconds(median(syncing)),
    peer: milliseconds(Math.max(...syncing)),
    ratio: times(median(syncing) / Math.max(...syncing)),
    wanted: 'under 100 ms',
    met: median(syncing) < 100,
  },
  {
    figure: `assembling a follow-up with ${chunkCount.toLocaleString('en')} indexed chunks, without the embedder; peer: the slowest of ${ROUNDS}`,
    ours: milliseconds(median(assembling)),
    peer: milliseconds(Math.max(...assembling)),
    ratio: times(median(assembling) / Math.max(...assembling)),
    wanted: 'under 50 ms',
    met: median(assembling) < 50,
  },
])
