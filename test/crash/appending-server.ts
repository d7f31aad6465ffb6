// A server that appends without end, for others to kill. Started as a process of its own: <project> <port>
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
    // Every so often one that is too large for a row.
    const content = turn % 25 === 24 ? 'large '.repeat(200_000) : `question ${turn}`
    await append(run, [userMessage(content)])
    const words = Array.from({ length: WORDS_A_RUN }, (_, index) => `word ${index} `)
    // As a run makes them: one append a word, not waiting for each.
    await Promise.all(words.map((word) => append(run, [delta(word)])))
    await append(run, [final(words.join(''))])
    // So much that a kill always hits something, so little that fifty rounds can be verified in a while.
    await new Promise((resolve) => setTimeout(resolve, 20))
  }

  async function append(run: RunHold, frames: Parameters<Ledger['append']>[0]['frames']): Promise<void> {
    const result = await ledger.append({ tenant: TENANT, conversationId, run, frames })
    if (!result.ok) throw new Error(result.refusal)
  }
}
