import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { rm, stat } from 'node:fs/promises'
import { PassThrough, type Readable } from 'node:stream'
import { pack } from 'tar-stream'
import type { BlobStore } from '../core/blobs.ts'
import { type Clock, timestamp } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { ExportedRow, Exports, FamilySource } from '../core/transfer.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { parseCopyWorkspaceId } from '../protocol/ids.ts'
import { BUNDLE, END, FORMAT, FORMAT_VERSION, HEAD, type Head } from './format.ts'

export interface ExportDependencies {
  source(): FamilySource
  blobs: Pick<BlobStore, 'get'>
  /** Writes the available checkpoints to a git bundle and returns their ids. */
  writeBundle(file: string, checkpoints: string[]): Promise<string[]>
  /**
   * A checkpoint of the current files of a conversation's own working copy; null when the copy is not on this server.
   */
  snapshotCopy(conversationId: string): Promise<string | null>
  /** Path for a new temporary file. */
  scratchFile(): string
  /** Blocks collections and backups; null when one is running. */
  hold(): (() => void) | null
  clock: Clock
  version: string
  log: Pick<Log, 'error'>
}

const LINES_BYTES = 4 * 1024 * 1024

export function createExports(deps: ExportDependencies): Exports {
  const { blobs, clock, version, log } = deps
  return {
    async open(tenant, id) {
      const source = deps.source()
      const release = deps.hold()
      if (!release) {
        throw new WaymarkError(
          'workspace_busy',
          'A collection or a backup is in progress. Try again when it has ended.',
        )
      }
      try {
        const family = await source.family(tenant, id)
        const head = { format: FORMAT, version: FORMAT_VERSION, made_by: `waymark ${version}` } as const
        const made_at = timestamp(clock.now())
        const archive = createArchive()
        write({ ...head, made_at, conversation_id: id, ...family }, archive, source)
          .catch((error: unknown) => {
            log.error({ err: error, conversation: id }, 'an export failed')
            // The reader gets an archive without its end, which every import refuses.
            archive.fail(error as Error)
          })
          .finally(release)
        return archive.stream
      } catch (error) {
        release()
        throw error
      }
    },
  }

  async function write(head: Head, archive: Archive, source: FamilySource): Promise<void> {
    await archive.add(HEAD, JSON.stringify(head))
    const named = new Set<string>()
    const checkpoints = new Set<string>()
    for (const segment of head.segments) {
      const lines = createLines(archive, `events/${segment.id}`)
      for await (const event of source.events(segment)) {
        if (event.blob !== null) named.add(event.blob)
        await lines.add(event)
      }
      await lines.end()
    }
    const rows = createLines(archive, 'rows')
    for (const segment of head.segments) {
      for await (const group of source.rows(segment)) {
        for (const key of blobsIn(group)) named.add(key)
        await rows.add(group)
      }
      const found = await source.names(segment)
      for (const key of found.blobs) named.add(key)
      for (const one of found.checkpoints) checkpoints.add(one)
    }
    await rows.end()
    for (const key of named) {
      const bytes = await blobs.get(key)
      if (!bytes) throw new WaymarkError('storage_failed', `The blob ${key} is missing.`)
      await archive.add(`blobs/${key}`, bytes)
    }
    const copies: Record<string, string> = {}
    for (const { id, workspace_id, is_deleted } of head.conversations) {
      const isCopy = !is_deleted && parseCopyWorkspaceId(workspace_id)?.conversationId === id
      const snapshot = isCopy ? await deps.snapshotCopy(id) : null
      if (snapshot !== null) copies[id] = snapshot
    }
    const kept = await addBundle(archive, [...checkpoints, ...Object.values(copies)])
    await archive.finish({ checkpoints: kept, copies })
  }

  async function addBundle(archive: Archive, checkpoints: string[]): Promise<string[]> {
    const file = deps.scratchFile()
    try {
      const kept = await deps.writeBundle(file, checkpoints)
      if (kept.length > 0) await archive.addFile(BUNDLE, file)
      return kept
    } finally {
      await rm(file, { force: true })
    }
  }
}

function blobsIn(group: readonly ExportedRow[]): string[] {
  return group.flatMap(({ table, row }) => {
    if (table === 'responses') return row.request_blob ?? []
    return table === 'response_ends' ? (row.response_blob ?? []) : []
  })
}

interface Archive {
  stream: Readable
  add(name: string, content: string | Uint8Array): Promise<void>
  addFile(name: string, path: string): Promise<void>
  finish(more: { checkpoints: string[]; copies: Record<string, string> }): Promise<void>
  fail(error: Error): void
}

/** Waits for its reader, so that at most one entry is in memory. */
function createArchive(): Archive {
  const archive = pack()
  // tar-stream's stream is not quite a Node.js stream.
  const stream = new PassThrough()
  const gone = new Promise<never>((_, reject) => {
    stream.once('close', () => reject(new Error('the reader disconnected')))
    archive.once('error', reject)
  })
  gone.catch(() => archive.destroy())
  archive.on('error', (error) => stream.destroy(error))
  archive.pipe(stream)
  const digest = createHash('sha256')
  let entries = 0

  async function entry(
    name: string,
    size: number,
    fill: (into: NodeJS.WritableStream) => void,
  ): Promise<void> {
    const written = new Promise<void>((resolve, reject) => {
      fill(archive.entry({ name, size }, (error) => (error ? reject(error) : resolve())))
    })
    await Promise.race([written, gone])
    entries++
  }

  async function add(name: string, content: string | Uint8Array): Promise<void> {
    const bytes = Buffer.from(content as string)
    note(digest, name, bytes)
    await entry(name, bytes.length, (into) => into.end(bytes))
  }

  return {
    stream,
    add,
    async addFile(name, path) {
      const { size } = await stat(path)
      const own = createHash('sha256')
      await entry(name, size, (into) => {
        const file = createReadStream(path)
        file.on('data', (piece) => own.update(piece))
        file.on('error', (error) => archive.destroy(error))
        file.pipe(into)
      })
      noteHash(digest, name, own.digest('hex'))
    },
    async finish(more) {
      const sha256 = digest.digest('hex')
      const bytes = Buffer.from(JSON.stringify({ entries, ...more, sha256 }))
      await entry(END, bytes.length, (into) => into.end(bytes))
      archive.finalize()
    },
    fail: (error) => stream.destroy(error),
  }
}

export function note(digest: ReturnType<typeof createHash>, name: string, content: Uint8Array): void {
  noteHash(digest, name, createHash('sha256').update(content).digest('hex'))
}

export function noteHash(digest: ReturnType<typeof createHash>, name: string, sha256: string): void {
  digest.update(`${name}\0${sha256}\n`)
}

/** Writes JSON lines, in entries of a few megabytes. */
function createLines(archive: Archive, folder: string) {
  let lines: string[] = []
  let bytes = 0
  let count = 0
  async function flush(): Promise<void> {
    if (lines.length === 0) return
    const name = `${folder}/${String(++count).padStart(6, '0')}.jsonl`
    const text = lines.join('')
    lines = []
    bytes = 0
    await archive.add(name, text)
  }
  return {
    async add(value: unknown): Promise<void> {
      const line = `${JSON.stringify(value)}\n`
      lines.push(line)
      bytes += line.length
      if (bytes >= LINES_BYTES) await flush()
    },
    end: flush,
  }
}
