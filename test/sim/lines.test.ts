import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { createUpkeep } from '../../src/stores/upkeep.ts'
import { rebuildProjections } from '../../src/workers/rebuild.ts'
import { verifyLedger } from '../../src/workers/verify.ts'
import { userMessage } from '../support/frames.ts'
import { rounds } from '../support/soak.ts'
import { openPostgresStore, openSqliteStore, type TestStore } from '../support/stores.ts'
import { checkFollower, checkLine, checkSearch, command, type Expected, Simulation } from './history.ts'

for (const engine of ['SQLite', 'Postgres'] as const) {
  describe(`random histories on ${engine}`, () => {
    let store: TestStore
    beforeAll(async () => {
      store = await (engine === 'SQLite' ? openSqliteStore : openPostgresStore(inject('postgresUrl')))()
    })
    afterAll(() => store.close())

    it('[L1] [L2] [L4] [L7] [L9] [D3] reads every line as written, whatever is deleted and collected', {
      timeout: 1_200_000,
    }, async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(command, { minLength: 1, maxLength: 25 }),
          fc.integer({ min: 1, max: 6 }),
          async (commands, limit) => {
            const simulation = new Simulation(store)
            await simulation.begin()
            for (const step of commands) await simulation.play(step)
            await simulation.check()
            for (const conversation of simulation.conversations) {
              if (conversation.removedAt === null) await checkLine(simulation, conversation, limit)
            }
            for (const follower of simulation.followers) await checkFollower(simulation, follower)
            const searches = [
              'a',
              'E',
              '00',
              'total',
              'basket total ',
              'GRÖ',
              'οδος ',
              '世',
              'edits',
              'bas 4',
              '%',
            ]
            for (const search of searches) await checkSearch(simulation, search)
          },
        ),
        { numRuns: rounds(20, 400) },
      )
      expect((await verifyLedger(createUpkeep(store))).flaws).toEqual([])
    })

    it('[D3] keeps every line under concurrent histories and collections', {
      timeout: 1_200_000,
    }, async () => {
      const histories = fc.array(fc.array(command, { minLength: 5, maxLength: 25 }), {
        minLength: 4,
        maxLength: 4,
      })
      const property = fc.asyncProperty(histories, async (all) => {
        const work = all.map(async (commands) => {
          const simulation = new Simulation(store)
          await simulation.begin()
          for (const step of commands) await simulation.play(step)
          await simulation.check()
          for (const follower of simulation.followers) await checkFollower(simulation, follower)
        })
        const outcomes = await Promise.allSettled(work)
        for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
      })
      await fc.assert(property, { numRuns: rounds(4, 100) })
      expect((await verifyLedger(createUpkeep(store))).flaws).toEqual([])
      await store.collect()
      const keys = await Array.fromAsync(store.blobs.keys())
      expect(await store.collection.unreferenced(keys)).toEqual([])
    })

    it('rebuilds the projections to the same state', async () => {
      const upkeep = createUpkeep(store)
      const before = await upkeep.projections()
      expect(before.messages.length).toBeGreaterThan(10)
      await rebuildProjections(upkeep)
      expect(await upkeep.projections()).toEqual(before)
    })

    it('misses no appends during a rebuild', async () => {
      const simulation = new Simulation(store)
      await simulation.begin()
      const upkeep = createUpkeep(store)
      const [conversation] = simulation.conversations as [Expected]
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
