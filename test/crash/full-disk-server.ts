// A server that appends until the disk is full and keeps serving. Runs in a separate process; argument: <project>
import { readConfig } from '../../src/config.ts'
import { WaymarkError } from '../../src/protocol/errors.ts'
import { verifyLedger } from '../../src/server/offline.ts'
import { startServer } from '../../src/server/server.ts'
import { openStore } from '../../src/server/store.ts'
import { delta, newConversation, startRun, TENANT } from '../support/frames.ts'
import { stateIn } from '../support/state.ts'

const [project = ''] = process.argv.slice(2)
const config = { ...readConfig({ project }, stateIn(project)), port: 0, logLevel: 'silent' as const }
const server = await startServer(config)
const id = await newConversation(server.ledger)
process.send?.({ url: server.url, token: server.token, id })

process.on('message', (what) => {
  void (what === 'fill' ? fill() : verify()).then((answer) => process.send?.(answer))
})

async function fill(): Promise<object> {
  const run = await startRun(server.ledger, id)
  const words = 'a word '.repeat(100)
  let stored = 1
  for (;;) {
    const results = await Promise.allSettled(
      Array.from({ length: 50 }, () =>
        server.ledger.append({ tenant: TENANT, conversationId: id, run, frames: [delta(words)] }),
      ),
    )
    stored += results.filter((result) => result.status === 'fulfilled' && result.value.ok).length
    const kept = results.map((result) => result.status === 'fulfilled' && result.value.ok)
    const failed = results.find((result) => result.status === 'rejected')
    if (!failed) continue
    const hasHole = kept.lastIndexOf(true) > kept.indexOf(false)
    return { stored, hasHole, code: failed.reason instanceof WaymarkError ? failed.reason.code : 'other' }
  }
}

async function verify(): Promise<object> {
  const store = await openStore(config)
  return await verifyLedger(store.upkeep)
}
