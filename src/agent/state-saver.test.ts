import { deltaChannelHistoryTests, validate } from '@langchain/langgraph-checkpoint-validation'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import {
  type OpenStore,
  openPostgresStore,
  openSqliteStore,
  type TestStore,
} from '../../test/support/stores.ts'
import { StateSaver } from './state-saver.ts'

// The suite expects the globals of Jest.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, test: it })

validateSaver('SQLite', openSqliteStore)
validateSaver('Postgres', openPostgresStore(inject('postgresUrl')))

/** LangGraph's validation suite for checkpoint savers, including delta channels. */
function validateSaver(name: string, open: OpenStore): void {
  let store: TestStore
  const initializer = {
    checkpointerName: `the state saver on ${name}`,
    beforeAll: async () => {
      store = await open()
    },
    beforeAllTimeout: 60_000,
    afterAll: () => store.close(),
    createCheckpointer: () => new StateSaver({ states: store.states }),
    // Each of its tests expects an empty store.
    destroyCheckpointer: async () => {
      const states = await store.states.list({})
      for (const threadId of new Set(states.map((state) => state.threadId))) {
        await store.states.deleteThread(threadId)
      }
    },
  }
  describe(`LangGraph's validation suite on ${name}`, () => {
    validate(initializer)
    deltaChannelHistoryTests(initializer)
  })
}
