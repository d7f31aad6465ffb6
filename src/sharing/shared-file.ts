import { type Client, RequestError } from '../client/index.ts'
import type { MemoryView } from '../protocol/api/context.ts'
import type { AttachmentView } from '../protocol/api/runs.ts'
import type { AnyFrame, Frame } from '../protocol/frames.ts'
import { titleFrom } from '../protocol/title.ts'
import { applyFrames } from '../replay/reduce.ts'
import { emptyTranscript } from '../replay/transcript.ts'
import { joinedFrames } from './joined-frames.ts'
import { createRedactor, type Redaction } from './redaction.ts'

/** A conversation as one HTML file that needs no server: what the file contains. */
export interface SharedConversation {
  conversationId: string
  title: string | null
  sharedAt: string
  frames: AnyFrame[]
  /** Whole outputs of calls whose frames hold only a part, by call. */
  outputs: Record<string, string>
  /** By SHA-256. */
  attachments: Record<string, AttachmentView>
  memory: MemoryView | null
}

export interface PreparedShare {
  shared: SharedConversation
  redactions: Redaction[]
}

const PAGE = 1000
/** A browser opens a file of this size within seconds. */
const MAX_CHARACTERS = 100_000_000
/** The element of the template that holds the conversation. */
export const SHARED_ELEMENT = 'waymark-shared'
const PLACE = '"waymark-shared-conversation"'

/** Reads a conversation and removes secrets from it. */
export async function prepareShare(
  client: Client,
  id: string,
  options: { now: string; also?: readonly string[]; onProgress?(events: number, of: number): void },
): Promise<PreparedShare> {
  const { title: named, is_titled, head_event_number: head } = await client.conversation(id)
  const frames = joined(await readFrames(client, id, (events) => options.onProgress?.(events, head)))
  const outputs: SharedConversation['outputs'] = Object.create(null)
  const attachments: SharedConversation['attachments'] = Object.create(null)
  for (const frame of frames) {
    if (frame.kind === 'tool.output') {
      const { output_ref, output, tool_call_id: call } = frame as Frame<'tool.output'>
      // Without it, the file shows the part that the frame has.
      if (output_ref !== undefined)
        outputs[call] = (await client.output(id, call).catch(unlessRefused))?.output ?? String(output)
    }
    if (frame.kind !== 'message.user') continue
    for (const { sha256 } of (frame as Frame<'message.user'>).attachments ?? []) {
      const attachment = await client.attachment(id, sha256).catch(unlessRefused)
      if (attachment) attachments[sha256] = attachment
    }
  }
  const hasMemory = frames.some(({ kind }) => kind === 'memory.checkpoint')
  const memory = hasMemory ? await client.memory(id) : null
  const redactor = createRedactor(options.also)
  const safe = redactor.redact({ frames, outputs, attachments, memory })
  const title = is_titled ? redactor.redact(named) : titleOf(safe.frames)
  assertSafe(safe.frames, options.also)
  return {
    shared: { conversationId: id, title, sharedAt: options.now, ...safe },
    redactions: redactor.redactions(),
  }
}

/** The frames with whole texts, unless that would show another transcript. */
function joined(frames: AnyFrame[]): AnyFrame[] {
  const whole = joinedFrames(frames)
  const shows = (shown: readonly AnyFrame[]) => JSON.stringify(applyFrames(emptyTranscript(), shown))
  return shows(whole) === shows(frames) ? whole : frames
}

/** Frames can continue each other in ways that hide a secret from a search of each; the transcript has the whole text. */
function assertSafe(frames: readonly AnyFrame[], also: readonly string[] = []): void {
  const redactor = createRedactor(also)
  redactor.redact(applyFrames(emptyTranscript(), frames).entries)
  const [left] = redactor.redactions()
  if (left)
    throw new Error(`A secret can't be redacted (${left.what}, ${left.shown}). The file was not written.`)
}

/** A title that was cut could hold a part of a secret, so it is made from the redacted message. */
function titleOf(frames: readonly AnyFrame[]): string | null {
  const first = frames.find(({ kind }) => kind === 'message.user') as Frame<'message.user'> | undefined
  return first ? titleFrom(first.content) : null
}

function unlessRefused(error: unknown): null {
  if (error instanceof RequestError) return null
  throw error
}

async function readFrames(
  client: Client,
  id: string,
  onProgress: (events: number) => void,
): Promise<AnyFrame[]> {
  const frames: AnyFrame[] = []
  let cursor: string | undefined
  do {
    const page = await client.events(id, { limit: PAGE, ...(cursor === undefined ? {} : { cursor }) })
    frames.push(...(page.items as AnyFrame[]))
    onProgress(frames.length)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
  return frames
}

/**
 * Puts the conversation into the template, as JSON in an element that browsers don't execute. Nothing in it can end that
 * element, and the template's content policy allows no script but the template's own.
 */
export function sharedHtml(template: string, shared: SharedConversation): string {
  const json = JSON.stringify(shared)
    .replaceAll('<', '\\u003c')
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029')
  if (json.length > MAX_CHARACTERS) {
    const size = Math.round(json.length / 1_000_000)
    throw new Error(`The conversation is too long for one file (${size} MB). Fork it before a later message.`)
  }
  const parts = template.split(PLACE)
  if (parts.length !== 2)
    throw new Error('The server has no template for shared files. Build the page first.')
  return parts.join(json)
}
