import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { extract, type Header } from 'tar-stream'
import type * as z from 'zod'
import type { BlobStore } from '../core/blobs.ts'
import { runIdOf } from '../core/frame-head.ts'
import type { Log } from '../core/log.ts'
import { chainDigest, genesis, joinSpilled } from '../core/seal.ts'
import {
  type ExportedRow,
  type ExportedSegment,
  type FamilySource,
  type FamilyTarget,
  type ImportedEvent,
  type Imports,
  planImport,
} from '../core/transfer.ts'
import type { ImportProgress, ImportReport } from '../protocol/api/transfer.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { copyWorkspaceId, isId, parseCopyWorkspaceId, type RunId } from '../protocol/ids.ts'
import { note, noteHash } from './export.ts'
import {
  BUNDLE,
  END,
  endSchema,
  eventSchema,
  HEAD,
  type Head,
  headSchema,
  MAX_BLOB_BYTES,
  MAX_HEAD_BYTES,
  MAX_LINES_BYTES,
  rowsSchema,
} from './format.ts'

export interface ImportDependencies {
  target: FamilyTarget
  source(): FamilySource
  blobs: BlobStore
  readBundle(file: string, checkpoints: string[]): Promise<void>
  /** True if the workspace has all of these. */
  has(checkpoints: string[]): Promise<boolean>
  /** Creates a conversation's own working copy with the files of this checkpoint. */
  makeCopy(conversationId: string, checkpoint: string): Promise<void>
  scratchFile(): string
  hold(): (() => void) | null
  workspaceId: string
  log: Pick<Log, 'error'>
}

const decompress = promisify(gunzip)
/** Batch sizes of one transaction: a large import must not block other writers. */
const EVENTS_AT_ONCE = 500
const ROWS_AT_ONCE = 500
const ROWS_BYTES = 4 * 1024 * 1024

/** Called for each part of the file, in the order of the format. */
interface Visitor {
  head?(head: Head): Promise<void> | void
  events?(segmentId: string, events: z.infer<typeof eventSchema>[]): Promise<void> | void
  rows?(group: ExportedRow[], bytes: number): Promise<void> | void
  blob?(key: string, bytes: Buffer): Promise<void> | void
  bundle?(file: string): Promise<void> | void
  end?(end: z.infer<typeof endSchema>): Promise<void> | void
}

export function createImports(deps: ImportDependencies): Imports {
  const { target, blobs, log } = deps
  return {
    async run({ tenant, by, file, onProgress = () => {} }) {
      const release = deps.hold()
      if (!release) {
        throw new WaymarkError(
          'workspace_busy',
          'A collection or a backup is in progress. Try again when it has ended.',
        )
      }
      try {
        return await take(tenant, by, file, onProgress)
      } finally {
        release()
      }
    },
  }

  async function take(
    tenant: string,
    by: string,
    file: string,
    onProgress: (progress: ImportProgress) => void,
  ): Promise<ImportReport> {
    let of = 0
    const at = (step: ImportProgress['step'], events: number) => onProgress({ step, events, of })
    at('checking', 0)
    const { head, checkpoints, copies } = await check(file)
    const plan = planImport(tenant, head, await target.known(head))
    if ('conflict' in plan) throw new WaymarkError('import_conflict', `Not imported: ${plan.conflict}.`)
    const wanted = new Set<string>(plan.ids)
    const report = {
      imported: plan.ids,
      present: head.conversations.map((one) => one.id).filter((id) => !wanted.has(id)),
      events: 0,
      checkpoints: 0,
    }
    if (wanted.size === 0) return report
    const conversations = head.conversations.filter((one) => wanted.has(one.id))
    const command = {
      tenant,
      family: { conversations, segments: head.segments },
      workspaces: Object.fromEntries(conversations.map((one) => [one.id, workspaceHere(one, head)])),
    }
    const own = new Set<string>(
      head.segments.filter((one) => wanted.has(one.conversation_id)).map((one) => one.id),
    )
    of = head.segments.reduce((sum, one) => sum + (own.has(one.id) ? one.upto - one.cut : 0), 0)
    // Store blobs before the events and rows that name them.
    await visit(file, { blob: async (key, bytes) => await blobs.put(key, bytes) })
    await checkDigests(file, head)
    await target.abort(tenant, plan.ids)
    try {
      await refusing(target.begin(command))
      report.events = await putEvents(file, head, own, (count) => at('events', count))
      at('records', report.events)
      await putRows(file, head, own)
      at('checkpoints', report.events)
      await visit(file, { bundle: (bundle) => readBundle(bundle, checkpoints) })
      await assertOwnCheckpoints(head, own, new Set(checkpoints))
      report.checkpoints = checkpoints.length
      await target.finish({ ...command, by })
    } catch (error) {
      await target.abort(tenant, plan.ids)
      throw error
    }
    await makeCopies(head, wanted, copies)
    return report
  }

  /** The conversation's new workspace: this project, or the working copy of a conversation in the file. */
  function workspaceHere({ workspace_id }: Head['conversations'][number], head: Head): string | null {
    if (workspace_id === null) return null
    const copy = parseCopyWorkspaceId(workspace_id)?.conversationId
    const isHere = copy !== undefined && head.conversations.some((one) => one.id === copy)
    return isHere ? copyWorkspaceId(deps.workspaceId, copy) : deps.workspaceId
  }

  /** Checks everything that can be checked without touching the store. */
  async function check(
    file: string,
  ): Promise<{ head: Head; checkpoints: string[]; copies: Record<string, string> }> {
    let head: Head | null = null
    let hasBundle = false
    let last: Pick<z.infer<typeof endSchema>, 'checkpoints' | 'copies'> = { checkpoints: [], copies: {} }
    const named = new Set<string>()
    const held = new Set<string>()
    const blocks: { hash: string; bytes: string }[] = []
    await visit(file, {
      head: (found) => void (head = found),
      events: (_, events) => {
        for (const { blob } of events) if (blob !== null) named.add(blob)
      },
      rows: async (group) => {
        for (const one of group) {
          if (one.table === 'responses' && one.row.request_blob) named.add(one.row.request_blob)
          if (one.table === 'response_ends' && one.row.response_blob) named.add(one.row.response_blob)
          assertPlainState(one)
          if (one.table === 'request_blocks') blocks.push(one.row)
        }
        for (const { hash, bytes } of blocks.splice(0)) await assertHash(hash, Buffer.from(bytes, 'base64'))
      },
      blob: async (key, bytes) => {
        await assertHash(key, bytes)
        held.add(key)
      },
      bundle: () => void (hasBundle = true),
      end: (end) => void (last = end),
    })
    const missing = [...named].find((key) => !held.has(key))
    if (missing !== undefined) throw invalid(`the blob ${missing} is missing`)
    if (!head) throw invalid(`${HEAD} is missing`)
    if (last.checkpoints.length > 0 && !hasBundle) throw invalid('its checkpoints are missing')
    return { head, checkpoints: last.checkpoints, copies: last.copies }
  }

  /** The frames must match the digests in the head. */
  async function checkDigests(file: string, head: Head): Promise<void> {
    const tips = new Map<string, Uint8Array>()
    const cuts = new Map<string, Uint8Array>()
    const wantedAt = new Map<string, Set<number>>()
    for (const { parent, cut } of head.segments) {
      if (parent !== null) wantedAt.set(parent, (wantedAt.get(parent) ?? new Set()).add(cut))
    }
    const segments = new Map<string, ExportedSegment>(head.segments.map((one) => [one.id, one]))
    const seqs = new Map<string, number>()
    await visit(file, {
      events: async (segmentId, events) => {
        const segment = segments.get(segmentId)
        if (!segment) throw invalid(`it has events of ${segmentId}, which it does not list as a segment`)
        const { parent, cut } = segment
        let digest = tips.get(segmentId) ?? (parent === null ? genesis.digest : cuts.get(`${parent} ${cut}`))
        let seq = seqs.get(segmentId) ?? cut
        for (const event of events) {
          if (event.seq !== ++seq || !digest) throw invalid(`the events of ${segmentId} are out of order`)
          digest = chainDigest(digest, (await whole(event)).text).digest
          if (wantedAt.get(segmentId)?.has(seq)) cuts.set(`${segmentId} ${seq}`, digest)
        }
        if (digest) tips.set(segmentId, digest)
        seqs.set(segmentId, seq)
      },
    })
    const other = head.segments.find(({ id, upto, digest }) => {
      const found = tips.get(id)
      return seqs.get(id) !== upto || !found || Buffer.from(found).toString('hex') !== digest
    })
    if (other) throw invalid(`the events of ${other.id} do not match their digest`)
  }

  async function putEvents(
    file: string,
    head: Head,
    own: ReadonlySet<string>,
    onStored: (count: number) => void,
  ): Promise<number> {
    const segments = new Map<string, ExportedSegment>(head.segments.map((one) => [one.id, one]))
    let count = 0
    await visit(file, {
      events: async (segmentId, events) => {
        const segment = segments.get(segmentId)
        if (!segment || !own.has(segmentId)) return
        for (let at = 0; at < events.length; at += EVENTS_AT_ONCE) {
          const batch = await Promise.all(events.slice(at, at + EVENTS_AT_ONCE).map(whole))
          await refusing(target.putEvents({ segment, events: batch }))
          count += batch.length
          onStored(count)
        }
      },
    })
    return count
  }

  async function whole(event: z.infer<typeof eventSchema>): Promise<ImportedEvent> {
    if (event.blob === null) return { ...event, text: event.frame }
    const bytes = await blobs.get(event.blob)
    const text = bytes && (await decompress(bytes, { maxOutputLength: MAX_BLOB_BYTES }))
    if (!text) throw invalid(`the blob ${event.blob} is missing`)
    return { ...event, text: joinSpilled(event.frame, text.toString()) }
  }

  async function putRows(file: string, head: Head, own: ReadonlySet<string>): Promise<void> {
    const runs = new Set<RunId>()
    await visit(file, {
      events: (segmentId, events) => {
        if (!own.has(segmentId)) return
        for (const { frame } of events) {
          const run = runIdOf(frame)
          if (run !== null && isId('run', run)) runs.add(run)
        }
      },
    })
    const places = new Map<string, ExportedSegment>(
      head.segments.flatMap((one) => (own.has(one.id) ? [[one.id, one]] : [])),
    )
    let batch: ExportedRow[] = []
    let bytes = 0
    const flush = async () => {
      const rows = batch
      batch = []
      bytes = 0
      if (rows.length > 0) await refusing(target.putRows(rows))
    }
    await visit(file, {
      rows: async (group, size) => {
        if (!isOwn(group, places, runs)) return
        assertOwnRows(group, places, runs)
        batch.push(...group)
        bytes += size
        if (batch.length >= ROWS_AT_ONCE || bytes >= ROWS_BYTES) await flush()
      },
    })
    await flush()
  }

  async function readBundle(bundle: string, checkpoints: string[]): Promise<void> {
    await deps.readBundle(bundle, checkpoints).catch((error: unknown) => {
      throw invalid((error as Error).message, error)
    })
  }

  /** A frame must not give access to a checkpoint that other conversations stored here. */
  async function assertOwnCheckpoints(
    head: Head,
    own: ReadonlySet<string>,
    held: ReadonlySet<string>,
  ): Promise<void> {
    const source = deps.source()
    for (const segment of head.segments.filter((one) => own.has(one.id))) {
      for (const id of (await source.names(segment)).checkpoints) {
        if (!held.has(id) && (await deps.has([id])))
          throw invalid(`it names the checkpoint ${id} but does not contain it`)
      }
    }
  }

  async function makeCopies(
    head: Head,
    wanted: ReadonlySet<string>,
    copies: Readonly<Record<string, string>>,
  ): Promise<void> {
    for (const { id, workspace_id, is_deleted } of head.conversations) {
      if (is_deleted || !wanted.has(id) || parseCopyWorkspaceId(workspace_id)?.conversationId !== id) continue
      const checkpoint = copies[id]
      // The conversation is imported either way, with its checkpoints.
      if (checkpoint === undefined || !(await deps.has([checkpoint]))) continue
      await deps.makeCopy(id, checkpoint).catch((error: unknown) => {
        log.error(
          { err: error, conversation: id },
          'could not create the working copy of an imported conversation',
        )
      })
    }
  }

  /** Reads the file once, verifying its format and its end. */
  async function visit(file: string, visitor: Visitor): Promise<void> {
    const digest = createHash('sha256')
    const seen = new Set<string>()
    let end: z.infer<typeof endSchema> | null = null
    const archive = extract()
    const reading = pipeline(createReadStream(file), archive)
    const walking = (async () => {
      for await (const entry of archive as AsyncIterable<Entry>) {
        const { name, size, type } = entry.header
        if (type !== 'file' || end || seen.has(name))
          throw invalid(`its entry ${JSON.stringify(name)} is out of place`)
        if (seen.size === 0 && name !== HEAD) throw invalid(`it does not start with ${HEAD}`)
        if (name === BUNDLE) {
          await withBundle(entry, digest, visitor)
        } else {
          const bytes = await contentOf(entry, limitOf(name), size)
          if (name === END) end = parsed(endSchema, bytes, name)
          else {
            note(digest, name, bytes)
            await visitEntry(name, bytes, visitor)
          }
        }
        seen.add(name)
      }
    })()
    await Promise.all([reading, walking]).catch((error: unknown) => {
      if (error instanceof WaymarkError || !(error instanceof Error)) throw error
      throw invalid(`it is not a tar archive or is damaged: ${error.message}`, error)
    })
    const last = end as z.infer<typeof endSchema> | null
    if (!last || last.entries !== seen.size - 1 || last.sha256 !== digest.digest('hex')) {
      throw invalid('it is incomplete or was changed')
    }
    await visitor.end?.(last)
  }

  async function withBundle(
    entry: Entry,
    digest: ReturnType<typeof createHash>,
    visitor: Visitor,
  ): Promise<void> {
    const own = createHash('sha256')
    const file = deps.scratchFile()
    try {
      await pipeline(
        entry,
        async function* (pieces: AsyncIterable<Buffer>) {
          for await (const piece of pieces) {
            own.update(piece)
            if (visitor.bundle) yield piece
          }
        },
        createWriteStream(file, { flags: 'wx', mode: 0o600 }),
      )
      await visitor.bundle?.(file)
    } finally {
      await rm(file, { force: true })
    }
    noteHash(digest, BUNDLE, own.digest('hex'))
  }
}

type Entry = Readable & AsyncIterable<Buffer> & { header: Header }

async function assertHash(key: string, bytes: Buffer): Promise<void> {
  const text = await decompress(bytes, { maxOutputLength: MAX_BLOB_BYTES }).catch(() => null)
  if (text && createHash('sha256').update(text).digest('hex') === key) return
  throw invalid(`the content of ${key} does not match its hash`)
}

async function visitEntry(name: string, bytes: Buffer, visitor: Visitor): Promise<void> {
  if (name === HEAD) return await visitor.head?.(parsed(headSchema, bytes, name))
  const [, segmentId] = /^events\/(seg_[0-9a-z]{26})\/\d{6}\.jsonl$/.exec(name) ?? []
  if (segmentId !== undefined) {
    if (visitor.events)
      await visitor.events(
        segmentId,
        linesOf(bytes).map((line) => parsed(eventSchema, line, name)),
      )
    return
  }
  if (/^rows\/\d{6}\.jsonl$/.test(name)) {
    if (!visitor.rows) return
    for (const line of linesOf(bytes)) await visitor.rows(parsed(rowsSchema, line, name), line.length)
    return
  }
  const [, key] = /^blobs\/([0-9a-f]{64})$/.exec(name) ?? []
  if (key === undefined) throw invalid(`it has an unexpected entry ${JSON.stringify(name)}`)
  await visitor.blob?.(key, bytes)
}

function limitOf(name: string): number {
  if (name.startsWith('blobs/')) return MAX_BLOB_BYTES
  return name === HEAD || name === END ? MAX_HEAD_BYTES : MAX_LINES_BYTES
}

async function contentOf(entry: AsyncIterable<Buffer>, most: number, size: number): Promise<Buffer> {
  if (size > most) throw invalid('an entry is too large')
  const pieces: Buffer[] = []
  for await (const piece of entry) pieces.push(piece)
  return Buffer.concat(pieces)
}

function linesOf(bytes: Buffer): string[] {
  return bytes
    .toString()
    .split('\n')
    .filter((line) => line !== '')
}

function parsed<T>(schema: z.ZodType<T>, text: string | Buffer, name: string): T {
  let value: unknown
  try {
    value = JSON.parse(text.toString())
  } catch {
    throw invalid(`${name} is not JSON`)
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  throw invalid(`${name} has an unexpected format (${issue?.path.join('.')}: ${issue?.message})`)
}

/** Rows of conversations that already exist are not imported. */
function isOwn(
  group: readonly ExportedRow[],
  places: ReadonlyMap<string, ExportedSegment>,
  runs: ReadonlySet<string>,
): boolean {
  const one = group.find((row) => row.table === 'responses' || row.table === 'agent_states')
  if (one?.table === 'agent_states') return runs.has(one.row.thread_id)
  const segment = one?.table === 'responses' ? places.get(one.row.segment) : undefined
  return segment !== undefined && one?.table === 'responses' && one.row.seq <= segment.upto
}

/** Rows may only refer to segments and runs of this file, and to rows of their own group. */
function assertOwnRows(
  group: readonly ExportedRow[],
  places: ReadonlyMap<string, ExportedSegment>,
  runs: ReadonlySet<string>,
): void {
  const states = new Set(group.flatMap((one) => (one.table === 'agent_states' ? [one.row.id] : [])))
  for (const { table, row } of group) {
    if ('segment' in row && !places.has(row.segment))
      throw invalid(`a row refers to the segment ${row.segment}, which is not in the file`)
    const run = 'run_id' in row ? row.run_id : 'thread_id' in row ? row.thread_id : null
    if (run !== null && !runs.has(run))
      throw invalid(`a row refers to the run ${run}, which is not in the file`)
    if (table === 'entry_chunks' && !states.has(row.id))
      throw invalid(`the chunk ${row.id} has no agent state in its group`)
  }
}

/** LangGraph loads states and turns some JSON into objects of its own; a file must not be able to request that. */
function assertPlainState(one: ExportedRow): void {
  const texts =
    one.table === 'agent_states'
      ? [one.row.state, one.row.metadata]
      : one.table === 'agent_values' || one.table === 'agent_writes'
        ? [one.row.value]
        : []
  for (const text of texts) {
    const plain = Buffer.from(text, 'base64').toString()
    if (/"lc"\s*:\s*1\b/.test(plain) || /"\\u006[cC]/.test(plain))
      throw invalid('an agent state is not plain data')
  }
}

/** The store refuses a file that contradicts itself or what is stored here. */
async function refusing<T>(work: Promise<T>): Promise<T> {
  return await work.catch((error: unknown) => {
    if (error instanceof WaymarkError && error.code === 'invalid_request') throw invalid(error.message, error)
    throw error
  })
}

function invalid(why: string, cause?: unknown): WaymarkError {
  return new WaymarkError('invalid_request', `This file can't be imported: ${why}.`, { cause })
}
