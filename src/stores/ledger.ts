import type { BlobStore } from '../core/blobs.ts'
import type { Clock } from '../core/clock.ts'
import { excerptOf } from '../core/excerpt.ts'
import type { Ledger, MessagesPage, Page, PageQuery, SearchHit } from '../core/ledger.ts'
import { searchedTextOf, termsOf } from '../core/search.ts'
import type { Conversation } from '../protocol/api/conversations.ts'
import type { Message } from '../protocol/api/ledger.ts'
import { formatCursor } from '../protocol/cursor.ts'
import type { Frame } from '../protocol/frames.ts'
import { createAppends } from './appends.ts'
import type { Database } from './database.ts'
import { unspill } from './spill.ts'
import type { StoredMessage } from './sql/lines/messages.ts'
import { createWakeUps } from './wake-ups.ts'

/** Caps a page's bytes whatever limit the reader requests; a page still holds at least one event. */
const MAX_PAGE_BYTES = 1024 * 1024

export interface LedgerDependencies {
  database: Database
  blobs: BlobStore
  clock: Clock
}

export function createLedger({ database, blobs, clock }: LedgerDependencies): Ledger {
  const wakeUps = createWakeUps()
  const appends = createAppends({ database, blobs, clock })
  const shared = new Map<string, Promise<Page>>()
  database.onChange(({ what, conversationId }) => {
    if (what === 'queue') return
    shared.clear()
    wakeUps.wake(conversationId)
  })

  async function page(query: PageQuery): Promise<Page> {
    const found = await database.read('page', { ...query, maxBytes: MAX_PAGE_BYTES })
    const { frames, blobs: spilled, digest, ...rest } = found
    for (const { index, blob } of spilled) frames[index] = await unspill(blobs, frames[index] ?? '', blob)
    return { ...rest, frames, digest: Buffer.from(digest).toString('hex') }
  }

  /** Readers waiting at the same cursor share one read: a hundred of them cost one query per commit. */
  function sharedPage(query: PageQuery): Promise<Page> {
    const place = query.cursor && formatCursor(query.cursor)
    const key = JSON.stringify([query.tenant, query.conversationId, place, query.limit])
    let reading = shared.get(key)
    if (!reading) {
      reading = page(query).finally(() => {
        if (shared.get(key) === reading) shared.delete(key)
      })
      shared.set(key, reading)
    }
    return reading
  }

  async function* follow(query: PageQuery, signal: AbortSignal): AsyncGenerator<Page> {
    const watch = wakeUps.watch(query.conversationId)
    let cursor = query.cursor
    try {
      for (let isFirst = true; !signal.aborted; isFirst = false) {
        const next = await sharedPage({ ...query, cursor })
        cursor = next.last
        if (isFirst || next.frames.length > 0 || next.cut) yield next
        if (next.atEnd) await watch.next(signal)
      }
    } finally {
      watch.close()
    }
  }

  async function messages(query: PageQuery): Promise<MessagesPage> {
    const found = await database.read('messages', query)
    const items: Message[] = []
    for (const row of found.items) items.push(await asMessage(row))
    const last = found.items.at(-1)
    return { items, next: found.more && last ? { segmentId: last.segmentId, seq: last.seq } : null }
  }

  async function asMessage(row: StoredMessage): Promise<Message> {
    const text = row.blob === null ? row.frame : await unspill(blobs, row.frame, row.blob)
    return {
      message_id: row.messageId,
      role: row.role,
      content: contentIn(text),
      event_number: row.seq,
      conversation_id: row.conversationId,
      checkpoint_id: row.checkpointId,
      run_id: row.runId,
      created_at: row.createdAt,
    }
  }

  return {
    append: appends.append,
    page,
    follow,
    messages,
    create: ({ createdAt, ...command }) =>
      database.write('createConversation', { ...command, now: createdAt ?? clock.now() }),
    fork: (command) => database.write('fork', { ...command, now: clock.now() }),
    async forkedBefore(tenant, idempotency) {
      const { answer } = await database.read('answeredBefore', { tenant, idempotency })
      return answer as Conversation | null
    },
    deleteMessages: (command) => database.write('deleteMessages', { ...command, now: clock.now() }),
    undeleteMessages: (command) => database.write('undeleteMessages', { ...command, now: clock.now() }),
    async findDeletion(tenant, id, messageId) {
      return (await database.read('findDeletion', { tenant, id, messageId })).earlier
    },
    async assertCanUndelete(tenant, id, messageId) {
      await database.read('assertCanUndelete', { tenant, id, messageId })
    },
    async change(tenant, id, change) {
      await database.write('changeConversation', { tenant, id, ...change, now: clock.now() })
    },
    async remove(tenant, id, by, undoing) {
      await database.write('removeConversation', { tenant, id, by, undoing, now: clock.now() })
    },
    async undoRemove(tenant, id, by, undoing) {
      await database.write('undoRemoveConversation', { tenant, id, by, undoing, now: clock.now() })
    },
    openRun: (command) => database.write('openRun', command),
    takeRun: (tenant, runId, from) => database.write('takeRun', { tenant, runId, from: from ?? null }),
    line: (tenant, id) => database.read('line', { tenant, id }),
    conversation: (tenant, id) => database.read('readConversation', { tenant, id }),
    presence: (tenant, id) => database.read('presenceOf', { tenant, id }),
    owns: (tenant, id) => database.read('ownsConversation', { tenant, id }),
    async conversations(query) {
      const { items, more } = await database.read('listConversations', query)
      const last = items.at(-1)
      return { items, next: more && last ? { updatedAt: last.updated_at, id: last.id } : null }
    },
    async search(query) {
      const terms = termsOf(query.search)
      if (terms === null) return { items: [], more: false }
      const { kinds = null, tool = null, path = null, since = null, until = null } = query
      const { tenant, conversationId, limit } = query
      const filters = { kinds, tool, path, since, until }
      const { items: found, more } = await database.read('searchLedger', {
        tenant,
        terms,
        conversationId,
        limit,
        ...filters,
      })
      const items: SearchHit[] = []
      for (const { frame, blob, seq: eventNumber, ...hit } of found) {
        const whole = blob === null ? frame : await unspill(blobs, frame, blob)
        const text = searchedTextOf(JSON.parse(whole) as Record<string, unknown>)?.text ?? ''
        items.push({ ...hit, eventNumber, excerpt: excerptOf(text, terms) })
      }
      return { items, more }
    },
    branches: (tenant, id) => database.read('branches', { tenant, id }),
    family: (tenant, id) => database.read('family', { tenant, id }),
    async checkpointAt(tenant, id, at) {
      const { after, checkpointId } = await database.read('checkpointAt', { tenant, conversationId: id, at })
      return { after, checkpointId }
    },
    async ping() {
      await database.read('segmentsAfter', { after: 0, limit: 1, onlyUnprojected: false })
    },
    async probeWrite() {
      await database.write('probe', null)
    },
    async close() {
      await appends.close()
      await database.close()
    },
  }
}

/** The text of a message or an answer. */

function contentIn(text: string): string {
  const frame = JSON.parse(text) as Frame<'message.user' | 'final'>
  return frame.kind === 'final' ? (frame.final.response_text ?? '') : frame.content
}
