import { createHash } from 'node:crypto'
import { languageOf } from '../core/languages.ts'
import type { Log } from '../core/log.ts'
import type { FoundChunk } from '../core/request-plan.ts'
import {
  type ChunkHit,
  type Embedder,
  type IndexedFile,
  type IndexStore,
  mergeRanks,
  type RagScope,
} from '../core/retrieval.ts'
import { chunksOf, linesOf } from './chunks.ts'
import { fitsAny } from './globs.ts'
import { termsOf } from './words.ts'

/** Larger files are not indexed. */
const MAX_BYTES = 1024 * 1024
/** The number of hits taken from each ranking. */
const CANDIDATES = 40
const EMBEDDED_AT_ONCE = 8
/** The longest that a search waits for the question's vector. */
const QUERY_MS = 2000

export interface RetrievalDependencies {
  store: IndexStore
  embedder: Embedder | null
  /** The current bytes of a scope's file; null when it does not exist or must not be read. */
  read(scope: string, path: string): Promise<Buffer | null>
  /** SHA-256 of each file; null for files that do not exist. */
  hashes(scope: string, paths: readonly string[]): Promise<(string | null)[]>
  log: Pick<Log, 'error'>
}

export interface Retrieval {
  /** Indexes a file that a tool has read or written (C7). */
  note(scope: string, path: string): Promise<void>
  /** Indexes a text under this name, unless its scope is already indexed. */
  noteText(scope: string, name: string, text: () => Promise<string>): Promise<void>
  /** Compares every indexed file with the current one and updates the index; returns how many had changed. */
  sync(scope: string): Promise<number>
  search(query: SearchQuery): Promise<FoundChunk[]>
  /** Returns those of these chunks that their files still contain. */
  again(
    workspace: string | null,
    attachments: readonly string[],
    ids: readonly string[],
  ): Promise<FoundChunk[]>
  /** Resolves when every chunk has its vector; for tests and benches. */
  embedded(): Promise<void>
  close(): Promise<void>
}

export interface SearchQuery {
  /** The scope whose files may have changed since they were indexed. */
  workspace: string | null
  /** Texts that never change, with the names to show for them. */
  attachments: readonly { scope: string; name: string }[]
  question: string
  scope: RagScope
  limit: number
  ways?: readonly ('words' | 'vectors')[]
}

export function createRetrieval(deps: RetrievalDependencies): Retrieval {
  const { store, embedder, log } = deps
  let embedding: Promise<void> | null = null
  let embedAgain = false
  let isClosed = false

  async function index(scope: string, path: string, bytes: Buffer | null, most = MAX_BYTES): Promise<void> {
    const text = bytes && bytes.length <= most ? asText(bytes) : null
    if (bytes === null || text === null) return await store.remove(scope, [path])
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    await store.put(scope, { path, sha256, language: languageOf(path) }, chunksOf(path, text))
    embedSoon()
  }

  function embedSoon(): void {
    if (!embedder || isClosed) return
    embedAgain = true
    embedding ??= embedAll(embedder)
      .catch((error: unknown) => {
        if (!isClosed) log.error({ err: error }, 'the index could not be embedded; it is searched by words')
      })
      .finally(() => {
        embedding = null
        if (embedAgain && !isClosed) embedSoon()
      })
  }

  async function embedAll(by: Embedder): Promise<void> {
    embedAgain = false
    for (;;) {
      const chunks = await store.unembedded(by.name, EMBEDDED_AT_ONCE)
      if (chunks.length === 0 || isClosed) return
      const vectors = await by.embed(
        // The path adds context to the text.
        chunks.map(({ path, text }) => `${path}\n${text}`),
        'later',
      )
      // Otherwise the loop would get the same chunks forever.
      if (vectors.length < chunks.length) throw new Error('the embedder returned too few vectors')
      await store.setVectors(
        by.name,
        chunks.flatMap(({ no }, at) => {
          const vector = vectors[at]
          return vector ? { no, vector } : []
        }),
      )
    }
  }

  async function sync(scope: string): Promise<number> {
    const files = await store.files(scope)
    if (files.length === 0) return 0
    const now = await deps.hashes(
      scope,
      files.map((file) => file.path),
    )
    const changed = files.filter((file, at) => file.sha256 !== now[at])
    for (const { path } of changed) await index(scope, path, await deps.read(scope, path))
    return changed.length
  }

  async function search(query: SearchQuery): Promise<FoundChunk[]> {
    const { workspace, attachments, question, limit, ways = ['words', 'vectors'] } = query
    // Other repositories are not indexed here.
    const isHere = workspace !== null && (query.scope.repo === undefined || query.scope.repo === workspace)
    const scopes = [...(isHere ? [workspace] : []), ...attachments.map((one) => one.scope)]
    const terms = termsOf(question)
    const paths = await pathsIn(scopes, query.scope)
    if (scopes.length === 0 || paths?.length === 0) return []
    const where = { scopes, paths, limit: CANDIDATES }
    const [words, vectors] = await Promise.all([
      terms.length > 0 && ways.includes('words') ? store.searchWords({ ...where, terms }) : [],
      ways.includes('vectors') ? byMeaning(where, question) : [],
    ])
    const merged = mergeRanks([words, vectors], (hit) => `${hit.scope} ${hit.id}`)
    const names = new Map(attachments.map(({ scope, name }) => [scope, name]))
    return (await stillThere(merged, workspace, limit)).map(({ scope, ...chunk }) => ({
      ...chunk,
      path: names.get(scope) ?? chunk.path,
    }))
  }

  async function byMeaning(
    where: { scopes: readonly string[]; paths: readonly string[] | null; limit: number },
    question: string,
  ): Promise<ChunkHit[]> {
    if (!embedder) return []
    try {
      const asked = embedder.embed([question], 'now')
      asked.catch(() => {})
      const late = new Promise<null>((resolve) => setTimeout(resolve, QUERY_MS, null).unref())
      const vector = (await Promise.race([asked, late]))?.[0]
      return vector
        ? await store.searchVectors({ ...where, vector, embedder: embedder.name, minLikeness: MIN_LIKENESS })
        : []
    } catch (error) {
      log.error({ err: error }, 'the question could not be embedded; the index is searched by words')
      return []
    }
  }

  async function pathsIn(
    scopes: readonly string[],
    { paths, languages }: RagScope,
  ): Promise<string[] | null> {
    if (!paths?.length && !languages?.length) return null
    const files: IndexedFile[] = (await Promise.all(scopes.map((scope) => store.files(scope)))).flat()
    const isWanted = (file: IndexedFile) =>
      (!paths?.length || fitsAny(file.path, paths)) &&
      (!languages?.length || languages.includes(file.language ?? ''))
    return files.filter(isWanted).map((file) => file.path)
  }

  /** Drops chunks that their files no longer contain, because a file may have changed after it was indexed. */
  async function stillThere(
    merged: readonly { hit: ChunkHit; score: number }[],
    workspace: string | null,
    limit: number,
  ): Promise<(FoundChunk & { scope: string })[]> {
    const texts = new Map<string, string>()
    const found: (FoundChunk & { scope: string })[] = []
    for (const { hit, score } of merged) {
      if (found.length >= limit) break
      if (hit.scope === workspace) {
        let text = texts.get(hit.path)
        if (text === undefined) {
          const bytes = await deps.read(hit.scope, hit.path)
          texts.set(hit.path, (text = (bytes && asText(bytes)) ?? ''))
        }
        if (linesOf(text, hit.startLine, hit.endLine) !== hit.text) continue
      }
      const { id, path, startLine, endLine, scope } = hit
      found.push({
        id,
        scope,
        path,
        startLine,
        endLine,
        text: hit.text,
        score,
        tokens: Math.ceil(hit.text.length / 4),
      })
    }
    return found
  }

  return {
    note: async (scope, path) => await index(scope, path, await deps.read(scope, path)),
    async noteText(scope, name, text) {
      const known = await store.files(scope)
      if (known.length === 0) await index(scope, name, Buffer.from(inLines(await text())), Infinity)
    },
    sync,
    search,
    async again(workspace, attachments, ids) {
      const scopes = [...(workspace === null ? [] : [workspace]), ...attachments]
      if (scopes.length === 0) return []
      const hits = (await store.chunks(scopes, ids)).map((hit) => ({ hit, score: 0 }))
      return (await stillThere(hits, workspace, hits.length)).map(({ scope: _scope, ...chunk }) => chunk)
    },
    async embedded() {
      while (embedding) await embedding
    },
    async close() {
      isClosed = true
      await embedder?.close()
      await embedding
    },
  }
}

/** A chunk with a lower similarity is unrelated to the question. */
const MIN_LIKENESS = 0.2

const LONG_LINE = 500

/** Breaks up long lines, because chunks consist of whole lines. */
function inLines(text: string): string {
  const pieces = (line: string) =>
    line.length <= LONG_LINE * 2 ? [line] : (line.match(new RegExp(`[^]{1,${LONG_LINE}}`, 'g')) ?? [])
  return text.split('\n').flatMap(pieces).join('\n')
}

function asText(bytes: Buffer): string | null {
  if (bytes.includes(0)) return null
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return null
  }
}
