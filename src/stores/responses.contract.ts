import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { cutOf, final, newConversation, startRun, TENANT, userMessage } from '../../test/support/frames.ts'
import type { OpenStore, TestStore } from '../../test/support/stores.ts'
import type { RunHold } from '../core/ledger.ts'
import type { RequestDetails, Responses } from '../core/responses.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'
import { systemClock } from '../server/system-clock.ts'
import { createResponses } from './responses.ts'

const details: RequestDetails = {
  model: 'a model',
  provider: null,
  message_id: 'msg',
  question: 'a question',
  workspace_id: null,
  rag_scope: null,
  previous_response_id: null,
  chain: 'not_kept',
  parts: [],
}

/** The contract of the records of requests, for every engine. */
export function describeResponses(engineName: string, open: OpenStore): void {
  describe(`records of requests on ${engineName}`, () => {
    let store: TestStore
    let responses: Responses

    beforeEach(async () => {
      store = await open()
      responses = opened()
    })
    afterEach(() => store.close())

    const opened = () => createResponses({ database: store.database, blobs: store.blobs, clock: systemClock })

    async function put(conversationId: ConversationId, hold: RunHold, request: string): Promise<string> {
      const id = newId('resp')
      const { runId, epoch } = hold
      const fence = { conversationId, runId, epoch }
      await responses.begin({ id, tenant: TENANT, conversationId, runId, request, details }, fence)
      return id
    }

    const body = async (conversationId: ConversationId, id: string) =>
      (await responses.get(TENANT, conversationId, id)).request

    async function storedBytes(): Promise<number> {
      const rows = await store.database.read('blocksAfter', { after: '', limit: 100_000 })
      return rows.reduce((sum, row) => sum + row.bytes.length + row.hash.length, 0)
    }

    it('[C1] stores 200 requests with a growing history in at most 1.3 times their unique bytes', async () => {
      const id = await newConversation(store.ledger)
      const hold = await startRun(store.ledger, id)
      const random = numbers(7)
      const history: string[] = []
      const sent: [string, string][] = []
      const start = words(random, 30_000)
      const end = words(random, 20_000)
      let unique = start.length + end.length
      for (let turn = 0; turn < 200; turn++) {
        const said = `{"role":"user","content":"${words(random, 1500)} – ${turn}"}`
        unique += said.length
        history.push(said)
        const request = `{"instructions":"${start}","input":[${history.join(',')}],"tools":"${end}"}`
        sent.push([await put(id, hold, request), request])
      }
      for (const [response, request] of sent.filter((_, index) => index % 20 === 19)) {
        expect(await body(id, response)).toBe(request)
      }
      const rows = 200 * 200
      expect((await storedBytes()) + rows).toBeLessThan(unique * 1.3)
    })

    it('[C1] reads every request back, whatever it has in common with earlier ones', async () => {
      const id = await newConversation(store.ledger)
      const hold = await startRun(store.ledger, id)
      const long = words(numbers(1), 40_000)
      const requests = [
        long,
        long,
        `${long}é`,
        `${long}ê`,
        long.slice(0, 20_000),
        `x${long}`,
        long.repeat(3),
        'short',
        long.repeat(2),
      ]
      const ids: string[] = []
      for (const request of requests) ids.push(await put(id, hold, request))
      responses = opened()
      for (const [index, one] of ids.entries()) expect(await body(id, one)).toBe(requests[index])
    })

    it('[C1] stores a request whole after a deletion, so that it needs no record of the line that was left', async () => {
      const id = await newConversation(store.ledger)
      const long = words(numbers(2), 40_000)
      await store.ledger.append({
        tenant: TENANT,
        conversationId: id,
        run: null,
        frames: [userMessage('kept')],
      })
      const first = await startRun(store.ledger, id)
      await store.ledger.append({
        tenant: TENANT,
        conversationId: id,
        run: first,
        frames: [userMessage('deleted'), final('done')],
      })
      const second = await startRun(store.ledger, id)
      await put(id, second, long)
      await cutOf(store.ledger, id, { after: 2 })
      const third = await startRun(store.ledger, id)
      const after = await put(id, third, `${long} and more`)
      await store.collect()
      expect(await body(id, after)).toBe(`${long} and more`)
    })
  })
}

/** A small generator of numbers, the same for each seed. */
function numbers(seed: number): () => number {
  let state = seed
  return () => (state = (state * 48_271) % 2_147_483_647)
}

function words(random: () => number, length: number): string {
  let text = ''
  while (text.length < length) text += `${random().toString(36)} `
  return text.slice(0, length)
}
