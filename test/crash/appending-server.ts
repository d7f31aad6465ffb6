// A server that appends forever until it is killed. Runs in a separate process; arguments: <project> <port>
import { readConfig } from '../../src/config.ts'
import type { Ledger, RunHold } from '../../src/core/ledger.ts'
import type { ConversationId } from '../../src/protocol/ids.ts'
import { startServer } from '../../src/server/server.ts'
import { delta, final, newConversation, startRun, TENANT, userMessage } from '../support/frames.ts'
import { stateIn } from '../support/state.ts'

const [project = '', port = '0'] = process.argv.slice(2)
const CONVERSATIONS = 4
const WORDS_A_RUN = 40

const server = await startServer({
  ...readConfig({ project }, stateIn(project)),
  port: Number(port),
  logLevel: 'silent',
})
const { items } = await server.ledger.conversations({
  tenant: TENANT,
  limit: CONVERSATIONS,
  after: null,
  search: null,
})
const ids = items.map((item) => item.id as ConversationId)
while (ids.length < CONVERSATIONS) ids.push(await newConversation(server.ledger))
process.on('message', () => {})
process.send?.({ url: server.url, token: server.token, ids })
await Promise.all(ids.map((id) => appendForEver(server.ledger, id)))

async function appendForEver(ledger: Ledger, conversationId: ConversationId): Promise<never> {
  for (let turn = 0; ; turn++) {
    const run = await startRun(ledger, conversationId)
    // Every 25th message is too large for a row.
    const content = turn % 25 === 24 ? 'large '.repeat(200_000) : `question ${turn}`
    await append(run, [userMessage(content)])
    const words = Array.from({ length: WORDS_A_RUN }, (_, index) => `word ${index} `)
    // Like a run: one append per word, without waiting for each.
    await Promise.all(words.map((word) => append(run, [delta(word)])))
    await append(run, [final(words.join(''))])
    // Often enough that a kill always interrupts an append, slow enough that verifying fifty rounds stays practical.
    await new Promise((resolve) => setTimeout(resolve, 20))
  }

  async function append(run: RunHold, frames: Parameters<Ledger['append']>[0]['frames']): Promise<void> {
    const result = await ledger.append({ tenant: TENANT, conversationId, run, frames })
    if (!result.ok) throw new Error(result.refusal)
  }
}
