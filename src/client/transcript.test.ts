import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { delta, final, newConversation, startRun, TENANT, userMessage } from '../../test/support/frames.ts'
import { type Cable, cableTo } from '../../test/support/line-cutter.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'
import { rounds } from '../../test/support/soak.ts'
import type { WaymarkError } from '../protocol/errors.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'
import { emptyTranscript } from '../replay/transcript.ts'
import { type Client, createClient, RequestError } from './index.ts'

describe('a client', () => {
  let server: TestServer
  let cable: Cable
  let client: Client
  beforeAll(async () => {
    server = await startTestServer()
    cable = await cableTo(server.url)
    client = createClient({ url: cable.url, token: server.token })
  })
  afterAll(async () => {
    await cable.close()
    await server.close()
  })

  const answer = async (id: ConversationId, question: string, reply: string, ends = true) => {
    const run = await startRun(server.ledger, id)
    const words = reply.split(' ').map((word) => delta(`${word} `))
    const message = userMessage(question)
    const frames = [message, ...words, ...(ends ? [final(reply)] : [])]
    await server.ledger.append({ tenant: TENANT, conversationId: id, run, frames })
    return message.message_id
  }
  const cut = (id: ConversationId, after: number) =>
    server.ledger.deleteMessages({
      tenant: TENANT,
      conversationId: id,
      at: { after },
      newSegmentId: newId('seg'),
      by: 'a test',
    })
  const undo = (id: ConversationId, messageId: string) =>
    server.ledger.undeleteMessages({ tenant: TENANT, conversationId: id, messageId, by: 'a test' })
  const replayed = async (id: ConversationId) => {
    let transcript = emptyTranscript()
    for await (const next of server.client.transcript(id, { follow: false })) transcript = next
    return transcript
  }

  function follow(id: ConversationId) {
    const stop = new AbortController()
    const following = { transcript: emptyTranscript(), states: [] as string[] }
    const done = (async () => {
      const options = {
        signal: stop.signal,
        firstWaitMs: 5,
        onState: (state: string) => following.states.push(state),
      }
      for await (const next of client.transcript(id, options)) following.transcript = next
    })()
    return {
      following,
      async end() {
        stop.abort()
        await done
      },
    }
  }

  it('[L7] resumes by itself after a lost connection', async () => {
    const id = await newConversation(server.ledger)
    const { following, end } = follow(id)
    await answer(id, 'one', 'the first answer')
    await expect.poll(() => following.transcript.head).toBe(6)
    cable.pull()
    await answer(id, 'two', 'the second answer')
    await expect.poll(() => following.states.filter((state) => state === 'waiting').length).toBeGreaterThan(2)
    cable.plug()
    await expect.poll(() => following.transcript.head).toBe(11)
    expect(following.transcript).toEqual(await replayed(id))
    await end()
  })

  it('[L7] ends with the right transcript when the conversation was cut while it was disconnected', async () => {
    const id = await newConversation(server.ledger, { title: 'A title' })
    const { following, end } = follow(id)
    await answer(id, 'one', 'kept')
    await answer(id, 'two', 'dropped')
    await expect.poll(() => following.transcript.head).toBe(7)
    cable.pull()
    await cut(id, 4)
    await answer(id, 'another two', 'instead')
    cable.plug()
    await expect.poll(() => following.transcript.head).toBe(8)
    expect(following.transcript).toEqual(await replayed(id))
    const said = following.transcript.entries.flatMap((entry) =>
      entry.type === 'message' ? entry.content : [],
    )
    expect(said).toEqual(['one', 'another two'])
    await end()
  })

  it('[L7] ends with the right transcript after any cuts and undos, connected or not', {
    timeout: 600_000,
  }, async () => {
    const step = fc.oneof(
      fc.record({ type: fc.constant('answer' as const), words: fc.nat(6), ends: fc.boolean() }),
      fc.record({ type: fc.constant('cut' as const), at: fc.nat(1000) }),
      fc.record({ type: fc.constant('undo' as const), at: fc.nat(1000) }),
      fc.record({ type: fc.constantFrom('pull' as const, 'plug' as const, 'settle' as const) }),
    )
    const property = fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 14 }), async (steps) => {
      const id = await newConversation(server.ledger)
      const { following, end } = follow(id)
      const messages: string[] = []
      for (const next of steps) {
        const line = await server.ledger.line(TENANT, id)
        const head = line.at(-1)
        if (next.type === 'answer') {
          messages.push(await answer(id, 'question', 'word '.repeat(next.words), next.ends))
        }
        if (next.type === 'cut') await cut(id, 1 + (next.at % (head?.to ?? 1)))
        if (next.type === 'undo' && messages.length > 0) {
          await undo(id, messages[next.at % messages.length] ?? '').catch((error: WaymarkError) => {
            expect(error.code).toBe('message_not_deleted')
          })
        }
        if (next.type === 'pull') cable.pull()
        if (next.type === 'plug') cable.plug()
        if (next.type === 'settle') await new Promise((resolve) => setTimeout(resolve, 5))
      }
      cable.plug()
      const expected = await replayed(id)
      await expect.poll(() => following.transcript, { timeout: 10_000 }).toEqual(expected)
      await end()
    })
    await fc.assert(property, { numRuns: rounds(15, 300) })
  })

  it('[L7] misses nothing when a cut is undone and redone around a lost connection', async () => {
    const id = await newConversation(server.ledger)
    const first = await answer(id, 'zero', '')
    await cut(id, 1)
    const second = await answer(id, 'one', 'two')
    const { following, end } = follow(id)
    await expect.poll(() => following.transcript.head).toBe(5)
    await undo(id, first)
    await expect.poll(() => following.transcript.head).toBe(4)
    cable.pull()
    await undo(id, second)
    await answer(id, 'three', 'four')
    cable.plug()
    await expect.poll(() => following.transcript.head).toBe(8)
    expect(following.transcript).toEqual(await replayed(id))
    await end()
  })

  it('does not retry permanent errors', async () => {
    const reading = client.stream(newId('conv')).next()
    await expect(reading).rejects.toMatchObject({ status: 404, code: 'conversation_not_found' })
    await expect(client.conversation('conv_x')).rejects.toBeInstanceOf(RequestError)
    await expect(createClient({ url: server.url, token: 'wrong' }).listConversations()).rejects.toMatchObject(
      {
        status: 401,
        code: 'unauthorized',
      },
    )
  })

  it('gets an error when its conversation is deleted while it follows', async () => {
    const id = await newConversation(server.ledger)
    const stream = client.stream(id)
    await stream.next()
    await client.deleteConversation(id)
    await expect(stream.next()).rejects.toMatchObject({ code: 'conversation_not_found' })
  })

  it('creates, changes, lists, pages and deletes conversations', async () => {
    // A workspace that this server does not have, so that no checkpoint events get in between.
    const about = { title: 'By the client', workspace_id: 'Another.Place' }
    const made = await client.createConversation(about, { idempotencyKey: newId('msg') })
    expect(await client.changeConversation(made.id, { title: 'Renamed' })).toMatchObject({ title: 'Renamed' })
    expect((await client.listConversations({ q: 'renamed' })).items.map((item) => item.id)).toEqual([made.id])
    const page = await client.events(made.id, { limit: 1 })
    expect(page.items).toHaveLength(1)
    expect((await client.events(made.id, { cursor: page.next_cursor ?? '' })).items).toHaveLength(1)
    expect(await client.messages(made.id)).toEqual({ items: [], next_cursor: null })
    await client.deleteConversation(made.id)
    await expect(client.conversation(made.id)).rejects.toMatchObject({ status: 404 })
  })
})
