import { hash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { type Clock, timestamp } from '../core/clock.ts'
import { derivedId } from '../core/derived-id.ts'
import type { Ledger } from '../core/ledger.ts'
import type { AppendImported, SessionImports } from '../core/session-imports.ts'
import { createTurns } from '../core/turns.ts'
import type { SessionEntry, SessionHead, SessionImport } from '../protocol/api/agent-sessions.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { AnyFrame, Frame } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import { createSessionFrames } from './session-frames.ts'

/** A transaction takes about this much, so that an import does not hold up other writers. */
const BATCH_CHARACTERS = 1024 * 1024
/** Frames that may follow the last import without a message: new titles and the like. */
const TAIL = 100
const MOST_KINDS = 200
/** Other requests get their turn after so many entries. */
const BREATH = 200
/** Outputs that are being stored at once. */
const MOST_KEEPING = 32

export interface SessionImportsDependencies {
  ledger: Pick<Ledger, 'create' | 'page' | 'conversation' | 'owns'>
  append: AppendImported
  /** Keeps a text under its SHA-256. */
  keep(text: string): Promise<string>
  workspaceId: string
  clock: Clock
}

/** What an earlier import has stored. */
interface Imported {
  entries: number
  digest: string
  /** The last event of the line. */
  head: number
}

export function createSessionImports(deps: SessionImportsDependencies): SessionImports {
  const { ledger, append, keep, workspaceId, clock } = deps
  /** Imports of one session run one after the other. */
  const inTurn = createTurns()

  async function run(
    tenant: string,
    head: SessionHead,
    entries: AsyncIterable<SessionEntry>,
  ): Promise<SessionImport> {
    const id = conversationOf(tenant, head)
    const before = await earlier(tenant, id)
    const report: SessionImport = { conversation_id: id, status: 'present', entries: 0, added: 0, others: {} }
    const already = typeof before === 'string' ? { entries: 0, digest: '', head: 0 } : before
    const keeping: Promise<unknown>[] = []
    const frames = createSessionFrames({
      agent: head.agent,
      conversationId: id,
      keep(text) {
        const stored = keep(text)
        // A failure is reported before the frames are stored.
        stored.catch(() => {})
        keeping.push(stored)
        return hash('sha256', text)
      },
    })
    let digest = ''
    let isChanged = false
    let stored = already.head
    let recorded = already.entries

    const flush = async () => {
      const parts = frames.take()
      await Promise.all(keeping.splice(0))
      // Record new entries even if they made no frames, so that the next import skips them.
      if (parts.length === 0 && (report.added === 0 || report.entries === recorded)) return
      recorded = report.entries
      const timestamp = parts.at(-1)?.timestamp ?? head.started_at
      const { agent, session_id, folder } = head
      const marker = {
        kind: 'import.session' as const,
        agent,
        session_id,
        folder,
        entries: report.entries,
        digest,
      }
      const all = [...parts, { runId: null, timestamp, frames: [marker] }]
      stored = (await append({ tenant, conversationId: id, after: stored, parts: all })).lastSeq
    }

    for await (const given of entries) {
      // Nothing was said in the future.
      const now = timestamp(clock.now())
      const entry = given.at > now ? { ...given, at: now } : given
      if (report.entries % BREATH === 0) await setImmediate()
      // A message begins a run, so all before it is complete.
      if (entry.type === 'message' || frames.isRunLong()) frames.endRun()
      if (!frames.isRunOpen() && frames.characters() > BATCH_CHARACTERS) await flush()
      const index = report.entries++
      digest = hash('sha256', digest + JSON.stringify(given))
      noteOther(report, entry)
      if (report.entries === already.entries) isChanged = digest !== already.digest
      if (typeof before === 'string' || isChanged) continue
      if (report.entries <= already.entries) {
        frames.skip(entry)
        continue
      }
      if (report.added === 0 && already.head === 0) stored = await create(tenant, id, head)
      report.added++
      frames.add(entry, index)
      if (keeping.length >= MOST_KEEPING) await Promise.all(keeping.splice(0))
    }
    frames.endRun()
    await flush()
    if (typeof before === 'string') return { ...report, status: before }
    if (isChanged || report.entries < already.entries) return { ...report, status: 'changed' }
    if (report.added > 0) report.status = already.entries === 0 ? 'imported' : 'updated'
    return report
  }

  /** The state of an earlier import, or why nothing can be added to it. */
  async function earlier(tenant: string, id: ConversationId): Promise<Imported | 'continued' | 'deleted'> {
    if (!(await ledger.owns(tenant, id))) return { entries: 0, digest: '', head: 0 }
    const found = await ledger.conversation(tenant, id).catch((error: unknown) => {
      if (error instanceof WaymarkError && error.code === 'conversation_not_found') return null
      throw error
    })
    if (!found) return 'deleted'
    const head = found.head_event_number
    const page = await ledger.page({
      tenant,
      conversationId: id,
      cursor: null,
      before: head + 1,
      limit: TAIL,
    })
    const tail = page.frames.map((text) => JSON.parse(text) as AnyFrame).toReversed()
    const last = tail.find((frame) => frame.kind === 'import.session' || frame.kind === 'message.user')
    if (last?.kind !== 'import.session') {
      // An import that was stopped right after it created the conversation.
      return head === 1 ? { entries: 0, digest: '', head } : 'continued'
    }
    const { entries, digest } = last as Frame<'import.session'>
    return { entries, digest, head }
  }

  async function create(tenant: string, id: ConversationId, head: SessionHead): Promise<number> {
    const startedAt = Date.parse(head.started_at)
    const { title } = head
    const frame = { kind: 'conversation.created' as const, ...(title === undefined ? {} : { title }) }
    const where = head.is_here ? workspaceId : null
    const { conversation } = await ledger.create({
      tenant,
      conversationId: id,
      segmentId: derivedId('seg', startedAt, id),
      workspaceId: where,
      settings: {},
      frame: where === null ? frame : { ...frame, workspace_id: where },
      createdAt: startedAt,
    })
    return conversation.head_event_number
  }

  function conversationOf(tenant: string, { agent, session_id, started_at }: SessionHead): ConversationId {
    return derivedId('conv', Date.parse(started_at), tenant, workspaceId, agent, session_id)
  }

  return {
    run: ({ tenant, head, entries }) =>
      inTurn(conversationOf(tenant, head), () => run(tenant, head, entries)),
  }
}

function noteOther(report: SessionImport, entry: SessionEntry): void {
  if (entry.type !== 'other') return
  const known = Object.hasOwn(report.others, entry.kind)
  if (!known && Object.keys(report.others).length >= MOST_KINDS) return
  report.others[entry.kind] = (known ? (report.others[entry.kind] ?? 0) : 0) + 1
}
