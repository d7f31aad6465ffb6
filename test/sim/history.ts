import { createHash, randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect } from 'vitest'
import type { Ledger, Page, RunHold } from '../../src/core/ledger.ts'
import { isFound, searchedTextOf, termsOf } from '../../src/core/search.ts'
import { workStateOf } from '../../src/core/work-sessions.ts'
import type { Cursor } from '../../src/protocol/cursor.ts'
import type { WaymarkError } from '../../src/protocol/errors.ts'
import type { AnyFrame, Frame, FrameDraft } from '../../src/protocol/frames.ts'
import { type ConversationId, newId, type RunId } from '../../src/protocol/ids.ts'
import { createUpkeep } from '../../src/stores/upkeep.ts'
import { delta, final, parsed, userMessage } from '../support/frames.ts'
import type { TestStore } from '../support/stores.ts'

/**
 * Random histories of appends, runs, forks, deletions, undone deletions and collections, applied to the ledger and to a
 * model of plain arrays. A number in a command selects, modulo the count, one of the candidates at that step.
 */
export type Command =
  | { type: 'say'; where: number; texts: string[] }
  | { type: 'run'; where: number; words: string[]; ends: boolean }
  | { type: 'work'; where: number; approves: boolean }
  | { type: 'fork'; where: number; at: number }
  | { type: 'cut'; where: number; at: number }
  | { type: 'undo'; where: number; which: number }
  | { type: 'remove'; where: number }
  | { type: 'undoRemove'; where: number }
  | { type: 'collect'; upTo: number }
  | { type: 'follow'; where: number; limit: number }

const text = fc.oneof(
  { weight: 30, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
  {
    weight: 10,
    arbitrary: fc
      .array(fc.constantFrom('basketTotal', 'basket', 'TOTAL', 'Größe', 'ΟΔΟΣ', '世界', 'file_edits', '42'))
      .map((words) => words.join(' ')),
  },
  { weight: 1, arbitrary: fc.nat(3).map((which) => String(which).repeat(1_100_000)) },
)
const pick = fc.nat({ max: 1_000_000 })
export const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('say' as const),
      where: pick,
      texts: fc.array(text, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('run' as const),
      where: pick,
      words: fc.array(fc.string({ maxLength: 8 }), { maxLength: 8 }),
      ends: fc.boolean(),
    }),
  },
  fc.record({ type: fc.constant('work' as const), where: pick, approves: fc.boolean() }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant('fork' as const), where: pick, at: pick }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('cut' as const), where: pick, at: pick }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('undo' as const), where: pick, which: pick }) },
  fc.record({ type: fc.constant('remove' as const), where: pick }),
  fc.record({ type: fc.constant('undoRemove' as const), where: pick }),
  fc.record({ type: fc.constant('collect' as const), upTo: pick }),
  fc.record({ type: fc.constant('follow' as const), where: pick, limit: fc.integer({ min: 1, max: 5 }) }),
)

/** An event as first read: its segment and number, and its bytes. */
interface Event {
  place: string
  text: string
}

interface LeftLine {
  line: Event[]
  at: number
}

/** The expected state of a conversation. */
export interface Expected {
  id: ConversationId
  line: Event[]
  run: RunHold | null
  /** Left lines that have not expired, the most recent last. */
  left: LeftLine[]
  removedAt: number | null
  work: { session: number; main: string | null; tip: string | null }
}

export interface Follower {
  id: ConversationId
  frames: string[]
  /** True once its conversation was deleted. */
  hasEnded: boolean
  stop: AbortController
  done: Promise<void>
}

export class Simulation {
  readonly conversations: Expected[] = []
  /** Deleted conversations that have expired. */
  readonly gone: Expected[] = []
  readonly followers: Follower[] = []
  readonly tenant = newId('tok')
  readonly store: TestStore
  readonly ledger: Ledger
  /** Times at which a line was left or a conversation deleted. */
  readonly times: number[] = []
  /** Every run ever started. */
  readonly runs = new Set<string>()

  constructor(store: TestStore) {
    this.store = store
    this.ledger = store.ledger
  }

  async begin(): Promise<void> {
    const id = newId('conv')
    const frame = { kind: 'conversation.created' as const, title: 'root' }
    const ids = { tenant: this.tenant, conversationId: id, segmentId: newId('seg') }
    await this.ledger.create({ ...ids, workspaceId: 'Sim', settings: {}, frame })
    await this.add(id, [], ['conversation.created root'], { session: 1, main: null, tip: null })
  }

  async play(step: Command): Promise<void> {
    if (step.type === 'collect') return await this.collect(step.upTo)
    const conversation = this.conversations[step.where % this.conversations.length] as Expected
    if (step.type === 'undoRemove') return await this.undoRemove(conversation)
    if (conversation.removedAt !== null) return
    const { id, line } = conversation
    const place = { tenant: this.tenant, conversationId: id }
    switch (step.type) {
      case 'say':
        await this.append(
          conversation,
          null,
          step.texts.map((words) => userMessage(words)),
        )
        return
      case 'run': {
        const run = conversation.run ?? (await this.ledger.openRun({ ...place, runId: newId('run') }))
        conversation.run = step.ends ? null : run
        this.runs.add(run.runId)
        const frames: FrameDraft[] = step.words.map((word) => delta(word))
        if (step.ends) frames.push(await this.remember(run), final(step.words.join('')))
        await this.append(conversation, run, frames)
        return
      }
      case 'work':
        return await this.work(conversation, step.approves)
      case 'fork': {
        const after = 1 + (step.at % line.length)
        const child = newId('conv')
        const ids = { newConversationId: child, newSegmentId: newId('seg') }
        await this.ledger.fork({ ...place, at: { after }, ...ids })
        await this.add(child, line.slice(0, after), [`conversation.forked ${after}`], null)
        return
      }
      case 'cut': {
        const after = 1 + (step.at % line.length)
        const { at } = await this.ledger.deleteMessages({
          ...place,
          at: { after },
          newSegmentId: newId('seg'),
          by: 'sim',
        })
        conversation.left.push({ line, at })
        await this.moved(conversation, line.slice(0, after), [`conversation.truncated ${after}`], at)
        return
      }
      case 'undo':
        return await this.undo(conversation, step.which)
      case 'remove': {
        await this.ledger.remove(this.tenant, id, 'sim')
        const { items } = await this.store.collection.audit({ tenant: this.tenant, limit: 1, before: null })
        conversation.removedAt = Date.parse(items[0]?.at ?? '')
        conversation.run = null
        this.times.push(conversation.removedAt)
        return
      }
      case 'follow':
        this.follow(id, step.limit)
    }
  }

  async undo(conversation: Expected, which: number): Promise<void> {
    const { id, left, line } = conversation
    const messages = [...new Set(left.flatMap((one) => messagesOf(one.line)))]
    const messageId = messages[which % messages.length]
    if (messageId === undefined) return
    const command = { tenant: this.tenant, conversationId: id, messageId, by: 'sim' }
    if (messagesOf(line).includes(messageId)) {
      await expect(this.ledger.undeleteMessages(command)).rejects.toMatchObject({
        code: 'message_not_deleted',
      })
      return
    }
    const index = left.findLastIndex((one) => messagesOf(one.line).includes(messageId))
    const { at } = await this.ledger.undeleteMessages(command)
    const [back] = left.splice(index, 1) as [LeftLine]
    left.push({ line, at })
    await this.moved(conversation, back.line, [], at)
  }

  /** Checks a line after a cut or an undo: beyond `prefix` and `next` it may only have restated frames. */
  async moved(conversation: Expected, prefix: Event[], next: string[], at: number): Promise<void> {
    const now = await this.read(conversation.id)
    const told = now.slice(prefix.length + next.length)
    const kinds = told.map((event) => (JSON.parse(event.text) as AnyFrame).kind)
    for (const kind of kinds) expect(STANDING).toContain(kind)
    expect(now.slice(0, prefix.length)).toEqual(prefix)
    expect(now.slice(prefix.length, prefix.length + next.length).map(describeEvent)).toEqual(next)
    conversation.line = now
    conversation.run = null
    this.times.push(at)
  }

  /** Stores an agent state and returns the frame that refers to it. */
  async remember(run: RunHold): Promise<FrameDraft> {
    const id = newId('resp')
    const bytes = { type: 'json', bytes: Buffer.from('{}') }
    const state = { threadId: run.runId, namespace: '', id, parentId: null, state: bytes, metadata: bytes }
    await this.store.states.put({ ...state, values: { messages: bytes }, unchanged: [] }, null)
    return { kind: 'agent.checkpoint', checkpoint_id: id, message_id: 'msg' }
  }

  async work(conversation: Expected, approves: boolean): Promise<void> {
    const { work } = conversation
    const rows = await this.store.work.rows(this.tenant, conversation.id)
    const { lastNumber } = workStateOf(rows)
    const checkpoint_id = randomBytes(20).toString('hex')
    const work_session = approves ? 'main' : `session_${work.session}`
    const frames: FrameDraft[] = [
      {
        kind: 'workspace.checkpoint',
        checkpoint_id,
        work_session,
        label: 'sim',
        files: 1,
        changed: 1,
        excluded: 0,
        number: lastNumber + 1,
      },
    ]
    if (approves) {
      const [closed_session, new_session] = [work.session, work.session + 1].map((n) => `session_${n}`)
      frames.push({
        kind: 'session.approved',
        approved_commit: checkpoint_id,
        closed_session: closed_session ?? '',
        new_session: new_session ?? '',
        commits_approved: 1,
      })
      conversation.work = { session: work.session + 1, main: checkpoint_id, tip: checkpoint_id }
    } else conversation.work = { ...work, tip: checkpoint_id }
    await this.append(conversation, null, frames)
  }

  async undoRemove(conversation: Expected): Promise<void> {
    if (conversation.removedAt === null) return
    await this.ledger.undoRemove(this.tenant, conversation.id, 'sim')
    conversation.removedAt = null
  }

  /** Collects as if the retention time had passed for everything left up to one of the recorded times. */
  async collect(upTo: number): Promise<void> {
    const time = this.times[upTo % (this.times.length + 1)] ?? Date.now()
    await this.store.collect(time, this.tenant)
    const all = this.conversations.slice()
    for (const conversation of all) {
      conversation.left = conversation.left.filter((one) => one.at > time)
      if (conversation.removedAt === null || conversation.removedAt > time) continue
      this.conversations.splice(this.conversations.indexOf(conversation), 1)
      this.gone.push(conversation)
    }
    if (this.conversations.length === 0) await this.begin()
    await this.check()
  }

  async add(
    id: ConversationId,
    inherited: Event[],
    next: string[],
    work: Expected['work'] | null,
  ): Promise<void> {
    const line = await this.read(id)
    expect(line.slice(0, inherited.length)).toEqual(inherited)
    expect(line.slice(inherited.length).map(describeEvent)).toEqual(next)
    // Another test checks the work state that a fork starts with.
    const { main, tip } = workStateOf(await this.store.work.rows(this.tenant, id))
    this.conversations.push({
      id,
      line,
      run: null,
      left: [],
      removedAt: null,
      work: work ?? { session: 1, main, tip },
    })
  }

  async append(conversation: Expected, run: RunHold | null, frames: FrameDraft[]): Promise<void> {
    const { id, line } = conversation
    const command = { tenant: this.tenant, conversationId: id, run }
    const results = await Promise.all(
      frames.map((frame) => this.ledger.append({ ...command, frames: [frame] })),
    )
    expect(results.every((result) => result.ok)).toBe(true)
    const now = await this.read(id)
    expect(now.slice(0, line.length)).toEqual(line)
    expect(now.slice(line.length).map(describeEvent)).toEqual(
      frames.map((frame) => frameText(JSON.parse(JSON.stringify(frame)))),
    )
    conversation.line = now
  }

  async read(id: ConversationId): Promise<Event[]> {
    const events: Event[] = []
    for (const page of await this.replay(id, null, 1000)) {
      for (const [index, text] of page.frames.entries()) {
        const seq = page.firstSeq + index
        const part = page.parts.find((one) => one.from <= seq && seq <= one.to)
        events.push({ place: `${part?.segmentId} ${seq}`, text })
      }
    }
    return events
  }

  async check(): Promise<void> {
    const reachable = new Map<string, string>()
    for (const { id, line, left, removedAt, work } of this.conversations) {
      for (const event of [line, ...left.map((one) => one.line)].flat())
        reachable.set(event.place, event.text)
      if (removedAt !== null) continue
      expect(await this.read(id)).toEqual(line)
      const { session, main, tip } = workStateOf(await this.store.work.rows(this.tenant, id))
      if (work.tip !== null) {
        expect({ session, main, tip }).toEqual({ ...work, session: `session_${work.session}` })
      }
    }
    await this.checkStored(reachable)
  }

  /** Checks that exactly the reachable events of this simulation are stored. */
  async checkStored(reachable: ReadonlyMap<string, string>): Promise<void> {
    const own = new Set<string>([...this.conversations, ...this.gone].map((one) => one.id))
    const stored = new Map<string, string>()
    const upkeep = createUpkeep(this.store)
    for await (const segment of upkeep.segments()) {
      if (!own.has(segment.conversationId)) continue
      const books = await upkeep.books(segment.segment)
      for await (const event of upkeep.events(segment.segment, segment.cut, books.seq)) {
        stored.set(`${segment.segmentId} ${event.seq}`, String(event.frame))
      }
    }
    expect(stored).toEqual(reachable)
    const frames = [...reachable.values()].map((one) => JSON.parse(one) as AnyFrame)
    const checkpoints = new Set(
      frames.flatMap((frame) =>
        frame.kind === 'workspace.checkpoint' ? (frame as Frame<'workspace.checkpoint'>).checkpoint_id : [],
      ),
    )
    const reached = new Set((await this.store.work.reachable()) ?? [])
    for (const one of checkpoints) expect(reached).toContain(one)
    for (const frame of frames) {
      if (frame.kind !== 'agent.checkpoint') continue
      const id = (frame as Frame<'agent.checkpoint'>).checkpoint_id
      const place = { threadId: frame.stream_id ?? '', namespace: '', id }
      expect((await this.store.states.get(place))?.values).toHaveProperty('messages')
    }
    await this.checkGone(reachable)
  }

  async checkGone(reachable: ReadonlyMap<string, string>): Promise<void> {
    const all = [...reachable.values()].map((one) => JSON.parse(one) as AnyFrame)
    const ended = new Set(all.flatMap((frame) => (frame.kind === 'agent.checkpoint' ? frame.stream_id : [])))
    const open = new Set(this.conversations.flatMap((one) => one.run?.runId ?? []))
    for (const runId of this.runs) {
      if (ended.has(runId) || open.has(runId as RunId)) continue
      expect(await this.store.states.list({ threadId: runId })).toEqual([])
    }
  }

  follow(id: ConversationId, limit: number): void {
    const stop = new AbortController()
    const follower: Follower = { id, frames: [], hasEnded: false, stop, done: Promise.resolve() }
    const query = { tenant: this.tenant, conversationId: id, cursor: null, limit }
    follower.done = (async () => {
      for await (const page of this.ledger.follow(query, stop.signal)) take(follower, page)
    })().catch((error: WaymarkError) => {
      expect(error.code).toBe('conversation_not_found')
      follower.hasEnded = true
    })
    this.followers.push(follower)
  }

  async replay(id: ConversationId, cursor: Cursor | null, limit: number): Promise<Page[]> {
    const pages: Page[] = []
    for (;;) {
      const page = await this.ledger.page({ tenant: this.tenant, conversationId: id, cursor, limit })
      pages.push(page)
      cursor = page.last
      if (page.atEnd) return pages
    }
  }
}

/** Kinds that are restated when a line is left. */
const STANDING = ['conversation.retitled', 'workspace.checkpoint', 'session.approved']

function take(follower: Follower, page: Page): void {
  if (page.cut) follower.frames.length = page.cut.seq
  expect(page.firstSeq).toBe(follower.frames.length + 1)
  follower.frames.push(...page.frames)
}

function messagesOf(line: readonly Event[]): string[] {
  return line.flatMap(({ text }) => {
    const frame = JSON.parse(text) as AnyFrame
    return frame.kind === 'message.user' ? (frame as Frame<'message.user'>).message_id : []
  })
}

function describeEvent({ text }: Event): string {
  return frameText(JSON.parse(text))
}

function frameText(frame: Record<string, unknown>): string {
  const final = frame.final as { response_text?: string } | undefined
  const said =
    frame.content ??
    frame.delta ??
    frame.title ??
    frame.from_event_number ??
    frame.cut_after ??
    frame.checkpoint_id ??
    final?.response_text
  return `${String(frame.kind)} ${String(said)}`
}

export async function checkLine(
  simulation: Simulation,
  { id, line }: Expected,
  limit: number,
): Promise<void> {
  const frames = line.map((event) => event.text)
  const objects = parsed(frames)
  expect(objects.map((frame) => frame.event_id)).toEqual(line.map((_, index) => index + 1))
  const cursors: Cursor[] = []
  let digest: Buffer = Buffer.alloc(32)
  for (const [index, page] of (await simulation.replay(id, null, 1)).entries()) {
    digest = createHash('sha256')
      .update(digest)
      .update(page.frames[0] as string)
      .digest()
    expect(page.digest).toBe(digest.toString('hex'))
    expect(page.last.seq).toBe(index + 1)
    cursors.push(page.last)
  }
  for (const cursor of cursors) {
    const pages = await simulation.replay(id, cursor, limit)
    expect(pages.every((page) => page.cut === null)).toBe(true)
    expect(pages.flatMap((page) => page.frames)).toEqual(frames.slice(cursor.seq))
  }
}

export async function checkFollower(simulation: Simulation, follower: Follower): Promise<void> {
  const expected = simulation.conversations.find((one) => one.id === follower.id && one.removedAt === null)
  const frames = expected?.line.map((event) => event.text)
  // Compare the frames, not their count: the count may match before the last cut arrives.
  const isThere = () => follower.hasEnded || isDeepStrictEqual(follower.frames, frames)
  if (frames) await expect.poll(isThere, { timeout: 10_000 }).toBe(true)
  follower.stop.abort()
  await follower.done
}

/** A search finds every event on a current line that has the words, each once, as a scan of the lines does. */
export async function checkSearch(simulation: Simulation, search: string): Promise<void> {
  const lines = simulation.conversations.filter(({ removedAt }) => removedAt === null)
  const found = new Map<string, string>()
  const terms = termsOf(search)
  for (const { line } of lines) {
    for (const { place, text } of line) {
      const said = searchedTextOf(JSON.parse(text) as Record<string, unknown>)
      if (said && terms && isFound(said.text, terms)) found.set(place, said.text)
    }
  }
  const { items, more } = await simulation.ledger.search({
    tenant: simulation.tenant,
    search,
    conversationId: null,
    limit: 1000,
  })
  expect(more).toBe(false)
  const places = items.map(({ conversationId, eventNumber }) => {
    const { line } = lines.find(({ id }) => id === conversationId) as Expected
    return line[eventNumber - 1]?.place
  })
  expect(new Set(places)).toEqual(new Set(found.keys()))
  expect(places.length).toBe(found.size)
}
