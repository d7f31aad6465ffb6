import * as z from 'zod'
import type { ExportedFamily, ExportedRow } from '../core/transfer.ts'
import { isId } from '../protocol/ids.ts'

/**
 * The export format, a tar archive with these entries in this order:
 *
 *   export.json                    conversations and segments, with the digest at the end of each segment
 *   events/<segment>/<n>.jsonl     frames in order of their numbers
 *   rows/<n>.jsonl                 requests, responses and agent states, in groups
 *   blobs/<sha256>                 gzip
 *   checkpoints.bundle             a git bundle
 *   end.json                       the SHA-256 of everything before it
 */
export const FORMAT = 'waymark-export'
export const FORMAT_VERSION = 1

export const HEAD = 'export.json'
export const BUNDLE = 'checkpoints.bundle'
export const END = 'end.json'

/** Size limits of an archive. */
export const MAX_HEAD_BYTES = 256 * 1024 * 1024
export const MAX_LINES_BYTES = 64 * 1024 * 1024
export const MAX_BLOB_BYTES = 256 * 1024 * 1024
const MAX_CONVERSATIONS = 10_000
const MAX_SEGMENTS = 200_000

const id = <P extends 'conv' | 'seg' | 'run'>(prefix: P) =>
  z.custom<`${P}_${string}`>((value) => typeof value === 'string' && isId(prefix, value))
const hash = z.string().regex(/^[0-9a-f]{64}$/)
const time = z.iso.datetime()
const json = z.string().refine((text) => {
  try {
    return typeof JSON.parse(text) === 'object'
  } catch {
    return false
  }
})

const conversation = z.strictObject({
  id: id('conv'),
  head: id('seg'),
  workspace_id: z.string().max(400).nullable(),
  parent_conversation_id: id('conv').nullable(),
  parent_event_number: z.int().min(0).nullable(),
  settings: json,
  created_at: time,
  updated_at: time,
  is_deleted: z.boolean(),
})

const segment = z.strictObject({
  id: id('seg'),
  conversation_id: id('conv'),
  parent: id('seg').nullable(),
  cut: z.int().min(0),
  created_at: time,
  upto: z.int().min(1),
  digest: hash,
})

export const headSchema = z
  .strictObject({
    format: z.literal(FORMAT),
    version: z.literal(FORMAT_VERSION),
    made_by: z.string().max(100),
    made_at: time,
    conversation_id: id('conv'),
    conversations: z.array(conversation).min(1).max(MAX_CONVERSATIONS),
    segments: z.array(segment).min(1).max(MAX_SEGMENTS),
  })
  .refine(isWhole, 'the conversations and segments are inconsistent')
export type Head = z.infer<typeof headSchema>

/** True if each segment comes after its parent and continues it, and all heads and owners are in the file. */
function isWhole({ conversations, segments }: ExportedFamily): boolean {
  const known = new Map<string, { upto: number }>()
  const owners = new Set<string>(conversations.map((one) => one.id))
  for (const { id: own, parent, cut, upto, conversation_id } of segments) {
    const above = parent === null ? null : known.get(parent)
    const fits = parent === null ? cut === 0 : above !== undefined && above !== null && cut <= above.upto
    if (!fits || upto <= cut || known.has(own) || !owners.has(conversation_id)) return false
    known.set(own, { upto })
  }
  return owners.size === conversations.length && conversations.every((one) => known.has(one.head))
}

export const eventSchema = z.strictObject({
  seq: z.int().min(1),
  frame: z.string(),
  blob: hash.nullable(),
})

const base64 = z.base64()
const name = z.string().max(400)
const place = { segment: id('seg'), seq: z.int().min(0) }
const value = {
  thread_id: id('run'),
  namespace: name,
  state_id: name,
  channel: name,
  value_type: z.enum(['json', 'bytes']),
  value: base64,
}

const length = z.int().min(0)
const layoutSchema = z.union([
  z.array(hash),
  z.strictObject({
    blocks: z.array(hash),
    base: z.strictObject({ id: name, prefix: length, suffix: length }),
  }),
])
/** The blocks of a request, and the earlier request that it shares bytes with. */
const layout = json.refine((text) => layoutSchema.safeParse(JSON.parse(text)).success)

const row = z.discriminatedUnion('table', [
  z.strictObject({
    table: z.literal('responses'),
    row: z.strictObject({
      id: name,
      conversation_id: id('conv'),
      ...place,
      run_id: id('run'),
      created_at: time,
      details: json,
      request: z.string(),
      request_blob: hash.nullable(),
      request_blocks: layout.nullable(),
    }),
  }),
  z.strictObject({
    table: z.literal('response_ends'),
    row: z.strictObject({
      id: name,
      ...place,
      ended_at: time,
      details: json,
      response: z.string(),
      response_blob: hash.nullable(),
    }),
  }),
  z.strictObject({ table: z.literal('request_blocks'), row: z.strictObject({ hash, bytes: base64 }) }),
  z.strictObject({
    table: z.literal('agent_states'),
    row: z.strictObject({
      thread_id: id('run'),
      namespace: name,
      id: name,
      parent_id: name.nullable(),
      value_places: json,
      state_type: z.enum(['json', 'bytes']),
      state: base64,
      metadata_type: z.enum(['json', 'bytes']),
      metadata: base64,
    }),
  }),
  z.strictObject({ table: z.literal('agent_values'), row: z.strictObject(value) }),
  z.strictObject({
    table: z.literal('agent_writes'),
    row: z.strictObject({ ...value, task_id: name, idx: z.int() }),
  }),
  z.strictObject({
    table: z.literal('entry_chunks'),
    row: z.strictObject({ id: name, parent: name.nullable(), bytes: base64 }),
  }),
]) satisfies z.ZodType<ExportedRow>

export const rowsSchema = z.array(row).max(1_000_000)

const checkpoint = z.string().regex(/^[0-9a-f]{40}$/)

export const endSchema = z.strictObject({
  entries: z.int(),
  checkpoints: z.array(checkpoint),
  /** A checkpoint of the files of each conversation with its own working copy, taken during the export. */
  copies: z.record(z.string(), checkpoint),
  sha256: hash,
})
