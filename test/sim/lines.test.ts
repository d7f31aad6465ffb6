import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { Ledger, Page, RunHold } from '../../src/core/ledger.ts'
import type { Cursor } from '../../src/protocol/cursor.ts'
import type { FrameDraft } from '../../src/protocol/frames.ts'
import { type ConversationId, newId, type SegmentId } from '../../src/protocol/ids.ts'
import { createUpkeep } from '../../src/stores/upkeep.ts'
import { rebuildProjections } from '../../src/workers/rebuild.ts'
import { verifyLedger } from '../../src/workers/verify.ts'
import { delta, final, parsed, userMessage } from '../support/frames.ts'
import { rounds } from '../support/soak.ts'
import { openPostgresStore, openSqliteStore, type TestStore } from '../support/stores.ts'

/**
 * Random histories of appends, runs, forks, cuts and undone cuts, played against the ledger and against plain arrays.
 * A number in a command chooses among what there is when its turn comes.
 */
type Command =
  | { type: 'say'; where: number; texts: string[] }
  | { type: 'run'; where: number; words: string[]; ends: boolean }
  | { type: 'fork'; where: number; at: number }
  | { type: 'cut'; where: number; at: number }
  | { type: 'undo'; where: number }
  | { type: 'follow'; where: number; limit: number }

const text = fc.oneof(
  { weight: 40, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
  { weight: 1, arbitrary: fc.constant('x'.repeat(1_100_000)) },
)
const pick = fc.nat({ max: 1_000_000 })
const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({
    type: fc.constant('say' as const),
    where: pick,
    texts: fc.array(text, { minLength: 1, maxLength: 4 }),
  }),
  fc.record({
    type: fc.constant('run' as const),
    where: pick,
    words: fc.array(fc.string({ maxLength: 8 }), { maxLength: 8 }),
    ends: fc.boolean(),
  }),
  fc.record({ type: fc.constant('fork' as const), where: pick, at: pick }),
  fc.record({ type: fc.constant('cut' as const), where: pick, at: pick }),
  fc.record({ type: fc.constant('undo' as const), where: pick }),
  fc.record({ type: fc.constant('follow' as const), where: pick, limit: fc.integer({ min: 1, max: 5 }) }),
)

/** What a conversation's line should say: each event as its kind and the text in it. */
interface Expected {
  id: ConversationId
  line: string[]
  run: RunHold | null
  /** Where the head has been before each cut. */
  earlier: { segmentId: SegmentId; line: string[] }[]
}

interface Follower {
  id: ConversationId
  frames: string[]
  cutsSeen: number
  stop: AbortController
  done: Promise<void>
}

class Simulation {
  readonly conversations: Expected[] = []
  readonly followers: Follower[] = []
  readonly tenant = newId('tok')
  readonly ledger: Ledger

  constructor(ledger: Ledger) {
    this.ledger = ledger
  }

  async begin(): Promise<void> {
    const id = newId('conv')
    const frame = { kind: 'conversation.created' as const, title: 'root' }
    const ids = { tenant: this.tenant, conversationId: id, segmentId: newId('seg') }
    await this.ledger.create({ ...ids, workspaceId: null, settings: {}, frame })
    this.conversations.push({ id, line: ['conversation.created root'], run: null, earlier: [] })
  }

  at(where: number): Expected {
    return this.conversations[where % this.conversations.length] as Expected
  }

  async play(step: Command): Promise<void> {
    const conversation = this.at(step.where)
    const { id, line } = conversation
    const place = { tenant: this.tenant, conversationId: id }
    switch (step.type) {
      case 'say':
        await Promise.all(step.texts.map((words) => this.append(conversation, null, [userMessage(words)])))
        return
      case 'run': {
        const run = conversation.run ?? (await this.ledger.openRun({ ...place, runId: newId('run') }))
        conversation.run = step.ends ? null : run
        const frames: FrameDraft[] = step.words.map((word) => delta(word))
        if (step.ends) frames.push(final(step.words.join('')))
        await Promise.all(frames.map((frame) => this.append(conversation, run, [frame])))
        return
      }
      case 'fork': {
        const after = 1 + (step.at % line.length)
        const child = newId('conv')
        await this.ledger.fork({ ...place, after, newConversationId: child, newSegmentId: newId('seg') })
        const inherited = [...line.slice(0, after), `conversation.forked ${after}`]
        this.conversations.push({ id: child, line: inherited, run: null, earlier: [] })
        return
      }
      case 'cut': {
        const after = 1 + (step.at % line.length)
        const segmentId = (await this.ledger.line(this.tenant, id)).at(-1)?.segmentId as SegmentId
        conversation.earlier.push({ segmentId, line: [...line] })
        await this.ledger.cut({ ...place, after, newSegmentId: newId('seg'), messageId: 'msg', by: 'sim' })
        conversation.line = [...line.slice(0, after), `conversation.truncated ${after}`]
        conversation.run = null
        return
      }
      case 'undo': {
        const before = conversation.earlier.pop()
        if (!before) return
        await this.ledger.moveHead({ ...place, segmentId: before.segmentId })
        conversation.line = before.line
        conversation.run = null
        return
      }
      case 'follow':
        this.follow(id, step.limit)
    }
  }

  async append(conversation: Expected, run: RunHold | null, frames: FrameDraft[]): Promise<void> {
    conversation.line.push(...frames.map(describeFrame))
    const result = await this.ledger.append({
      tenant: this.tenant,
      conversationId: conversation.id,
      run,
      frames,
    })
    expect(result).toMatchObject({ ok: true })
  }

  follow(id: ConversationId, limit: number): void {
    const stop = new AbortController()
    const follower: Follower = { id, frames: [], cutsSeen: 0, stop, done: Promise.resolve() }
    const query = { tenant: this.tenant, conversationId: id, cursor: null, limit }
    follower.done = (async () => {
      for await (const page of this.ledger.follow(query, stop.signal)) take(follower, page)
    })()
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

function take(follower: Follower, page: Page): void {
  if (page.cut) {
    follower.frames.length = page.cut.seq
    follower.cutsSeen++
  }
  expect(page.firstSeq).toBe(follower.frames.length + 1)
  follower.frames.push(...page.frames)
}

function describeFrame(frame: FrameDraft): string {
  return frameText(frame)
}

function frameText(frame: Record<string, unknown>): string {
  const final = frame.final as { response_text?: string } | undefined
  const said =
    frame.content ??
    frame.delta ??
    frame.title ??
    frame.from_event_number ??
    frame.cut_after ??
    final?.response_text
  return `${String(frame.kind)} ${String(said)}`
}

for (const engine of ['SQLite', 'Postgres'] as const) {
  describe(`random histories on ${engine}`, () => {
    let store: TestStore
    beforeAll(async () => {
      store = await (engine === 'SQLite' ? openSqliteStore : openPostgresStore(inject('postgresUrl')))()
    })
    afterAll(() => store.close())

    it('[L1] [L2] [L4] [L7] [L9] every line reads as it was written, from every cursor, live and replayed', {
      timeout: 1_200_000,
    }, async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(command, { minLength: 1, maxLength: 25 }),
          fc.integer({ min: 1, max: 6 }),
          async (commands, limit) => {
            const simulation = new Simulation(store.ledger)
            await simulation.begin()
            for (const step of commands) await simulation.play(step)
            for (const conversation of simulation.conversations)
              await checkLine(simulation, conversation, limit)
            for (const follower of simulation.followers) await checkFollower(simulation, follower)
          },
        ),
        { numRuns: rounds(20, 400) },
      )
      expect((await verifyLedger(createUpkeep(store))).flaws).toEqual([])
    })

    it('a rebuild brings the projections back as they were', async () => {
      const upkeep = createUpkeep(store)
      const before = await upkeep.projections()
      expect(before.messages.length).toBeGreaterThan(10)
      await rebuildProjections(upkeep)
      expect(await upkeep.projections()).toEqual(before)
    })

    it('a rebuild while appends go on misses none of them', async () => {
      const simulation = new Simulation(store.ledger)
      await simulation.begin()
      const upkeep = createUpkeep(store)
      const conversation = simulation.at(0)
      let isRebuilding = true
      const appending = (async () => {
        for (let index = 0; isRebuilding || index < 50; index++) {
          await simulation.append(conversation, null, [userMessage(`message ${index}`)])
        }
      })()
      await rebuildProjections(upkeep)
      isRebuilding = false
      await appending
      const afterwards = await upkeep.projections()
      await rebuildProjections(upkeep)
      expect(await upkeep.projections()).toEqual(afterwards)
    })
  })
}

async function checkLine(simulation: Simulation, { id, line }: Expected, limit: number): Promise<void> {
  const frames = (await simulation.replay(id, null, 1000)).flatMap((page) => page.frames)
  const objects = parsed(frames) as unknown as Record<string, unknown>[]
  expect(objects.map(frameText)).toEqual(
    line.map((entry) => frameText(JSON.parse(JSON.stringify(split(entry))))),
  )
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

/** The expected entry as frame fields, so that both sides go through the same JSON. */
function split(entry: string): Record<string, unknown> {
  const space = entry.indexOf(' ')
  return { kind: entry.slice(0, space), content: entry.slice(space + 1) }
}

async function checkFollower(simulation: Simulation, follower: Follower): Promise<void> {
  const frames = (await simulation.replay(follower.id, null, 1000)).flatMap((page) => page.frames)
  // Not their number: it may be right on the way.
  await expect.poll(() => follower.frames, { timeout: 10_000 }).toEqual(frames)
  follower.stop.abort()
  await follower.done
  expect(follower.frames).toEqual(frames)
}
