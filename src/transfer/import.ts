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
import type { ImportReport } from '../protocol/api/transfer.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { copyOf, copyWorkspaceId, isId, type RunId } from '../protocol/ids.ts'
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
  /** Whether all of these are in the workspace. */
  has(checkpoints: string[]): Promise<boolean>
  /** Makes a conversation's own working copy, with the files of this checkpoint. */
  makeCopy(conversationId: string, checkpoint: string): Promise<void>
  scratchFile(): string
  hold(): (() => void) | null
  workspaceId: string
  log: Pick<Log, 'error'>
}

const decompress = promisify(gunzip)
const EVENTS_AT_ONCE = 200

/** Called for each part of the file, in the order of the format. */
interface Visitor {
  head?(head: Head): Promise<void> | void
  events?(segmentId: string, events: z.infer<typeof eventSchema>[]): Promise<void> | void
  rows?(group: ExportedRow[]): Promise<void> | void
  blob?(key: string, bytes: Buffer): Promise<void> | void
  bundle?(file: string): Promise<void> | void
  end?(end: z.infer<typeof endSchema>): Promise<void> | void
}

export function createImports(deps: ImportDependencies): Imports {
  const { target, blobs, log } = deps
  return {
    async run({ tenant, by, file }) {
      const release = deps.hold()
      if (!release) {
        throw new WaymarkError(
          'workspace_busy',
          'A collection or a backup is under way; try again when it has ended.',
        )
      }
      try {
        return await take(tenant, by, file)
      } finally {
        release()
      }
    },
  }

  async function take(tenant: string, by: string, file: string): Promise<ImportReport> {
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
    // Blobs first, then what names them.
    await visit(file, { blob: async (key, bytes) => await blobs.put(key, bytes) })
    await checkDigests(file, head)
    await target.abort(tenant, plan.ids)
    try {
      await refusing(target.begin(command))
      report.events = await putEvents(file, head, own)
      await putRows(file, head, own)
      await visit(file, { bundle: async (bundle) => await refusing(deps.readBundle(bundle, checkpoints)) })
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

  /** Where the conversation's files are from now on: in this project, or in the working copy of a conversation of the file. */
  function workspaceHere({ workspace_id }: Head['conversations'][number], head: Head): string | null {
    if (workspace_id === null) return null
    const copy = copyOf(workspace_id)?.conversationId
    const isHere = copy !== undefined && head.conversations.some((one) => one.id === copy)
    return isHere ? copyWorkspaceId(deps.workspaceId, copy) : deps.workspaceId
  }

  /** Everything that can be checked without touching the store. */
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
    if (!head) throw invalid('it has no head')
    if (last.checkpoints.length > 0 && !hasBundle) throw invalid('its checkpoints are missing')
    return { head, checkpoints: last.checkpoints, copies: last.copies }
  }

  /** The frames must be those that the digests in the head were made of. */
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
        if (!segment) throw invalid(`there are events of ${segmentId}, which it does not list`)
        const { parent, cut } = segment
        let digest = tips.get(segmentId) ?? (parent === null ? genesis.digest : cuts.get(`${parent} ${cut}`))
        let seq = seqs.get(segmentId) ?? cut
        for (const event of events) {
          if (event.seq !== ++seq || !digest) throw invalid(`the events of ${segmentId} are not in order`)
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
    if (other) throw invalid(`the events of ${other.id} are not those that it was made of`)
  }

  async function putEvents(file: string, head: Head, own: ReadonlySet<string>): Promise<number> {
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
          const run = /"stream_id":"(run_[0-9a-z]{26})"/.exec(frame.slice(0, 400))?.[1]
          if (run !== undefined && isId('run', run)) runs.add(run)
        }
      },
    })
    const family = { segments: head.segments.filter((one) => own.has(one.id)), runs: [...runs] }
    const places = new Map<string, ExportedSegment>(family.segments.map((one) => [one.id, one]))
    await visit(file, {
      rows: async (group) => {
        if (isOwn(group, places, runs)) await refusing(target.putRows({ family, rows: group }))
      },
    })
  }

  /** A frame must not give access to a checkpoint that is here for others. */
  async function assertOwnCheckpoints(
    head: Head,
    own: ReadonlySet<string>,
    held: ReadonlySet<string>,
  ): Promise<void> {
    const source = deps.source()
    for (const segment of head.segments.filter((one) => own.has(one.id))) {
      for (const id of (await source.names(segment)).checkpoints) {
        if (!held.has(id) && (await deps.has([id])))
          throw invalid(`it names the checkpoint ${id} without having it`)
      }
    }
  }

  async function makeCopies(
    head: Head,
    wanted: ReadonlySet<string>,
    copies: Readonly<Record<string, string>>,
  ): Promise<void> {
    for (const { id, workspace_id, is_deleted } of head.conversations) {
      if (is_deleted || !wanted.has(id) || copyOf(workspace_id)?.conversationId !== id) continue
      const checkpoint = copies[id]
      // The conversation is there either way, with its checkpoints.
      if (checkpoint === undefined || !(await deps.has([checkpoint]))) continue
      await deps.makeCopy(id, checkpoint).catch((error: unknown) => {
        log.error(
          { err: error, conversation: id },
          'the working copy of an imported conversation could not be made',
        )
      })
    }
  }

  /** Walks through the file once, checks its shape and its end. */
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
          throw invalid(`it has an entry ${JSON.stringify(name)} in a wrong place`)
        if (seen.size === 0 && name !== HEAD) throw invalid(`it does not begin with ${HEAD}`)
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
      throw invalid(`it is not a tar archive, or damaged: ${error.message}`, error)
    })
    const last = end as z.infer<typeof endSchema> | null
    if (!last || last.entries !== seen.size - 1 || last.sha256 !== digest.digest('hex')) {
      throw invalid('it is not whole, or was changed')
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
  throw invalid(`the content ${key} is something else`)
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
    for (const line of linesOf(bytes)) await visitor.rows(parsed(rowsSchema, line, name))
    return
  }
  const [, key] = /^blobs\/([0-9a-f]{64})$/.exec(name) ?? []
  if (key === undefined) throw invalid(`it has an entry ${JSON.stringify(name)}, which no export has`)
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
  throw invalid(`${name} is not as an export has it (${issue?.path.join('.')}: ${issue?.message})`)
}

/** Rows of conversations that are here already stay as they are. */
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

/** States are loaded by LangGraph, which makes objects of its own of some JSON: no file may ask for that. */
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

/** What the store refuses in a file is the file's fault. */
async function refusing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof WaymarkError) throw error
    throw invalid((error as Error).message, error)
  }
}

function invalid(why: string, cause?: unknown): WaymarkError {
  return new WaymarkError('invalid_request', `This file can not be imported: ${why}.`, { cause })
}
