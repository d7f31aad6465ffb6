import type { Deletion, Ledger, PageQuery, Place, RunHold } from '../../src/core/ledger.ts'
import { type Cursor, parseCursor } from '../../src/protocol/cursor.ts'
import type { AnyFrame, FrameDraft } from '../../src/protocol/frames.ts'
import { type ConversationId, newId } from '../../src/protocol/ids.ts'

export const TENANT = 'default'

export async function newConversation(
  ledger: Ledger,
  options: { tenant?: string; title?: string; workspaceId?: string } = {},
): Promise<ConversationId> {
  const conversationId = newId('conv')
  await ledger.create({
    tenant: options.tenant ?? TENANT,
    conversationId,
    segmentId: newId('seg'),
    workspaceId: options.workspaceId ?? null,
    settings: {},
    frame: { kind: 'conversation.created', ...(options.title === undefined ? {} : { title: options.title }) },
  })
  return conversationId
}

export async function forkOf(
  ledger: Ledger,
  conversationId: ConversationId,
  at: Place | null = null,
): Promise<ConversationId> {
  const newConversationId = newId('conv')
  await ledger.fork({ tenant: TENANT, conversationId, at, newConversationId, newSegmentId: newId('seg') })
  return newConversationId
}

export async function cutOf(ledger: Ledger, conversationId: ConversationId, at: Place): Promise<Deletion> {
  return await ledger.deleteMessages({
    tenant: TENANT,
    conversationId,
    at,
    newSegmentId: newId('seg'),
    by: 'a test',
  })
}

export async function startRun(ledger: Ledger, conversationId: ConversationId): Promise<RunHold> {
  return await ledger.openRun({ tenant: TENANT, conversationId, runId: newId('run') })
}

export function delta(text: string, outputIndex = 0): FrameDraft<'message.delta'> {
  return {
    kind: 'message.delta',
    output_index: outputIndex,
    item_id: `item_${outputIndex}`,
    content_index: 0,
    delta: text,
  }
}

export function userMessage(content: string): FrameDraft<'message.user'> {
  return { kind: 'message.user', message_id: newId('msg'), content }
}

export function final(text: string): FrameDraft<'final'> {
  return { kind: 'final', final: { status: 'completed', response_text: text } }
}

/** Every frame from the cursor to the head, read in pages of `limit` events. */
export async function readAll(
  ledger: Ledger,
  conversationId: ConversationId,
  options: { cursor?: Cursor | null; limit?: number; tenant?: string } = {},
): Promise<string[]> {
  const frames: string[] = []
  const query: PageQuery = {
    tenant: options.tenant ?? TENANT,
    conversationId,
    cursor: options.cursor ?? null,
    limit: options.limit ?? 500,
  }
  for (;;) {
    const page = await ledger.page(query)
    frames.push(...page.frames)
    query.cursor = page.last
    if (page.atEnd) return frames
  }
}

export function parsed(frames: readonly string[]): AnyFrame[] {
  return frames.map((frame) => JSON.parse(frame) as AnyFrame)
}

export function cursorOf(text: string): Cursor {
  const cursor = parseCursor(text)
  if (!cursor) throw new Error(`not a cursor: ${text}`)
  return cursor
}
