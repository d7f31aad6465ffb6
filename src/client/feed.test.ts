import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  cutOf,
  delta,
  final,
  forkOf,
  newConversation,
  startRun,
  TENANT,
  userMessage,
} from '../../test/support/frames.ts'
import { cableTo } from '../../test/support/line-cutter.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'
import { rounds } from '../../test/support/soak.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import { emptyTranscript, type Transcript } from '../replay/transcript.ts'
import { createClient } from './index.ts'

describe('a conversation read from its end', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())

  const append = async (id: ConversationId, frames: FrameDraft[], isRun = true) => {
    const run = isRun ? await startRun(server.ledger, id) : null
    await server.ledger.append({ tenant: TENANT, conversationId: id, run, frames })
  }
  const turn = (id: ConversationId, i: number, words: number, ends = true) =>
    append(id, [
      userMessage(`question ${i}`),
      ...Array.from({ length: words }, (_, n) => delta(`${n} `)),
      ...(ends ? [final(`answer ${i}`)] : []),
    ])
  const checkpoint: FrameDraft = {
    kind: 'workspace.checkpoint',
    checkpoint_id: 'a'.repeat(40),
    work_session: 'session_1',
    label: 'Before reset',
    files: 0,
    changed: 0,
    excluded: 0,
  }

  async function whole(id: ConversationId): Promise<Transcript> {
    let transcript = emptyTranscript()
    for await (const next of server.client.transcript(id, { follow: false })) transcript = next
    return transcript
  }

  /** Opens a feed; `until` waits until the shown transcript passes the test. */
  function opened(id: ConversationId) {
    const stop = new AbortController()
    const feed = server.client.feed(id)
    let shown: Transcript | null = null
    const done = feed.follow({ signal: stop.signal, firstWaitMs: 5, onTranscript: (next) => (shown = next) })
    return {
      feed,
      shown: () => shown,
      async until(test: (transcript: Transcript) => boolean) {
        await expect.poll(() => shown !== null && test(shown)).toBe(true)
      },
      async end() {
        stop.abort()
        await done
      },
    }
  }

  async function toTheBeginning({ feed, shown }: ReturnType<typeof opened>): Promise<void> {
    while ((shown()?.from ?? 2) > 1) await feed.earlier()
  }

  it('[P6] [L7] shows its end first, and with its earlier parts the same as when read from the beginning', {
    timeout: 1_200_000,
  }, async () => {
    const command = fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({ type: fc.constant('turn' as const), words: fc.integer({ min: 0, max: 400 }) }),
      },
      { weight: 1, arbitrary: fc.constant({ type: 'open' as const }) },
      { weight: 1, arbitrary: fc.constant({ type: 'mark' as const }) },
      { weight: 1, arbitrary: fc.constant({ type: 'fork' as const }) },
      {
        weight: 1,
        arbitrary: fc.record({
          type: fc.constant('cut' as const),
          share: fc.double({ min: 0.01, max: 1, noNaN: true }),
        }),
      },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 12 }), async (commands) => {
        let id = await newConversation(server.ledger)
        for (const [i, one] of commands.entries()) {
          if (one.type === 'turn') await turn(id, i, one.words)
          if (one.type === 'open') await turn(id, i, 3, false)
          if (one.type === 'mark') await append(id, [checkpoint], false)
          if (one.type === 'fork') id = await forkOf(server.ledger, id)
          if (one.type === 'cut') {
            const { head } = await whole(id)
            await cutOf(server.ledger, id, { after: Math.max(1, Math.floor(head * one.share)) })
          }
        }
        const all = await whole(id)
        const one = opened(id)
        await one.until((transcript) => transcript.head === all.head)
        const first = one.shown()
        expect(all.entries.slice(-(first?.entries.length ?? 0))).toEqual(first?.entries)
        await toTheBeginning(one)
        expect(one.shown()).toEqual(all)
        // It can also be read as of any event.
        for (const at of [1, Math.ceil(all.head / 2), all.head]) {
          const then = await server.client.transcriptAt(id, at)
          expect(then.head).toBe(at)
        }
        await one.end()
      }),
      { numRuns: rounds(12, 150) },
    )
  })

  it('[P1] [L7] follows cuts at any position, and undone deletions', async () => {
    const id = await newConversation(server.ledger)
    for (let i = 0; i < 8; i++) await turn(id, i, 150)
    const before = await whole(id)
    const one = opened(id)
    await one.until((transcript) => transcript.head === before.head)
    await one.feed.earlier()
    const messages = (await server.client.messages(id)).items.filter((message) => message.role === 'user')
    for (const nth of [7, 4, 1]) {
      const message = messages[nth]
      await server.client.deleteMessage(id, message?.message_id ?? '')
      const cut = await whole(id)
      await one.until((transcript) => transcript.head === cut.head)
      await toTheBeginning(one)
      expect(one.shown()).toEqual(cut)
      await server.client.undelete(id, { message_id: message?.message_id ?? '' })
      await one.until((transcript) => transcript.head === before.head)
      await toTheBeginning(one)
      expect(one.shown()).toEqual(before)
    }
    // A cut in the middle of a run, before the part that is followed.
    await cutOf(server.ledger, id, { after: 200 })
    const cut = await whole(id)
    await one.until((transcript) => transcript.head === cut.head)
    await toTheBeginning(one)
    expect(one.shown()).toEqual(cut)
    await one.end()
  })

  it('[P1] shows nothing of a left line, even when the new line has the same event numbers', async () => {
    const id = await newConversation(server.ledger)
    for (let i = 0; i < 6; i++) await turn(id, i, 198)
    const cable = await cableTo(server.url)
    const client = createClient({ url: cable.url, token: server.token })
    const stop = new AbortController()
    const feed = client.feed(id)
    let shown: Transcript | null = null
    const following = feed.follow({
      signal: stop.signal,
      firstWaitMs: 5,
      onTranscript: (next) => (shown = next),
    })
    const now = (): Transcript | null => shown
    await expect.poll(() => now()?.head).toBe(1201)
    while ((now()?.from ?? 2) > 1) await feed.earlier()
    cable.pull()
    await cutOf(server.ledger, id, { after: 201 })
    // One more event, so that a message is again at the end of the earlier part.
    await append(id, [checkpoint], false)
    for (let i = 10; i < 18; i++) await turn(id, i, 97)
    cable.plug()
    const after = await whole(id)
    await expect.poll(() => now()?.head).toBe(after.head)
    while ((now()?.from ?? 2) > 1) await feed.earlier()
    expect(now()).toEqual(after)
    stop.abort()
    await following
    await cable.close()
  })

  it('[L7] resumes where it was when it is followed again, whatever was cut meanwhile', async () => {
    const id = await newConversation(server.ledger)
    for (let i = 0; i < 8; i++) await turn(id, i, 150)
    const feed = server.client.feed(id)
    let shown: Transcript | null = null
    const now = (): Transcript | null => shown
    async function lookUntil(head: number): Promise<void> {
      const stop = new AbortController()
      const done = feed.follow({ signal: stop.signal, onTranscript: (next) => (shown = next) })
      await expect.poll(() => now()?.head).toBe(head)
      stop.abort()
      await done
    }
    await lookUntil((await whole(id)).head)
    while ((now()?.from ?? 2) > 1) await feed.earlier()
    await turn(id, 8, 20)
    const grown = await whole(id)
    await lookUntil(grown.head)
    // The earlier parts are still loaded.
    expect(now()).toEqual(grown)
    await cutOf(server.ledger, id, { after: 300 })
    for (let i = 10; i < 14; i++) await turn(id, i, 250)
    const other = await whole(id)
    await lookUntil(other.head)
    while ((now()?.from ?? 2) > 1) await feed.earlier()
    expect(now()).toEqual(other)
  })

  it('[P6] never splits a run of thousands of events', async () => {
    const id = await newConversation(server.ledger)
    for (let i = 0; i < 10; i++) await turn(id, i, 200)
    await turn(id, 10, 2600)
    const one = opened(id)
    await one.until((transcript) => transcript.head > 4600)
    const part = one.shown()
    expect(part?.from).toBeGreaterThan(1)
    expect(part?.entries[0]?.type).toBe('message')
    expect(part?.entries.at(-1)).toEqual((await whole(id)).entries.at(-1))
    await toTheBeginning(one)
    expect(one.shown()).toEqual(await whole(id))
    await one.end()
  })
})
