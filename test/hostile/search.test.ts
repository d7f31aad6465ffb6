import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { forkOf, newConversation, TENANT, userMessage } from '../support/frames.ts'
import { startTestServer, type TestServer } from '../support/server.ts'
import { rounds } from '../support/soak.ts'

const DEPTH = rounds(1000, 4000)

describe('thousands of nested forks', () => {
  let server: TestServer
  let deepest: string

  beforeAll(async () => {
    server = await startTestServer()
    const root = await newConversation(server.ledger, { title: 'The root' })
    await server.ledger.append({
      tenant: TENANT,
      conversationId: root,
      run: null,
      frames: [userMessage('needle in the root')],
    })
    let at = root
    for (let i = 0; i < DEPTH; i++) at = await forkOf(server.ledger, at)
    deepest = at
  })
  afterAll(() => server.close())

  it('[T9] are searched within the time limit without blocking other reads', async () => {
    let isFound = false
    const search = server.client.listConversations({ q: 'needle', limit: 50 }).then((found) => {
      isFound = true
      return found
    })
    // This read starts during the search and finishes without waiting for it.
    const ledger = await server.call(`/conversations/${deepest}/ledger/events?limit=10`)
    expect(ledger.status).toBe(200)
    const started = performance.now()
    const { items } = await search
    expect(isFound).toBe(true)
    expect(performance.now() - started).toBeLessThan(10_000)
    expect(items).toHaveLength(50)
    expect(items.map(({ title }) => title)).toEqual(items.map(() => 'The root'))
    expect((await server.client.listConversations({ q: 'nothing like it' })).items).toEqual([])
  })

  it('[T9] are listed as one family', async () => {
    const { items } = await server.client.tree(deepest)
    expect(items).toHaveLength(DEPTH + 1)
    expect(new Set(items.map(({ title }) => title))).toEqual(new Set(['The root']))
  })
})
