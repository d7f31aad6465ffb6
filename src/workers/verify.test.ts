import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { delta, final, newConversation, startRun, TENANT, userMessage } from '../../test/support/frames.ts'
import { openSqliteStore, type TestStore } from '../../test/support/stores.ts'
import { createUpkeep } from '../stores/upkeep.ts'
import { verifyLedger } from './verify.ts'

describe('[L9] verify finds', () => {
  let store: TestStore
  beforeEach(async () => {
    store = await openSqliteStore()
    const id = await newConversation(store.ledger)
    const run = await startRun(store.ledger, id)
    const frames = [userMessage('hello'), delta('he'), delta('llo'), final('hello')]
    await store.ledger.append({ tenant: TENANT, conversationId: id, run, frames })
    await store.ledger.append({
      tenant: TENANT,
      conversationId: id,
      run: null,
      frames: [userMessage('x'.repeat(1_200_000))],
    })
  })
  afterEach(() => store.close())

  const flawsAfter = async (damage: string) => {
    const database = new Database(join(store.folder, 'waymark.db'))
    database.exec(damage)
    database.close()
    return (await verifyLedger(createUpkeep(store))).flaws.map((flaw) => [flaw.seq, flaw.flaw])
  }

  it('no flaws in an intact ledger', async () => {
    expect(await verifyLedger(createUpkeep(store))).toEqual({
      segments: 1,
      events: 6,
      contents: 1,
      flaws: [],
      damaged: [],
    })
  })

  it.each([
    ['a changed frame', `update events set frame = replace(frame, 'llo', 'LLO') where seq = 4`, 4],
    ['a changed digest', `update events set digest = zeroblob(32) where seq = 2`, 2],
    ['a missing event', `delete from events where seq = 3`, 3],
    ['a changed event number', `update events set seq = 9 where seq = 6`, 6],
    ['a wrong byte count', `update events set bytes_before = 1 where seq = 3`, 3],
    ['a missing end', `delete from events where seq >= 4`, 3],
    ['an emptied segment', `delete from events`, 0],
    ['a run with a wrong frame count', `update runs set frames = 9`, 6],
  ])('%s', async (_, damage, seq) => {
    expect((await flawsAfter(damage))[0]?.[0]).toBe(seq)
  })

  it('a missing blob', async () => {
    for await (const key of store.blobs.keys()) await store.blobs.delete(key)
    expect(await flawsAfter('select 1')).toEqual([[6, expect.stringMatching(/is missing/)]])
    const { damaged } = await verifyLedger(createUpkeep(store))
    expect(damaged).toEqual([{ key: expect.any(String), flaw: expect.stringMatching(/is missing/) }])
  })

  it.each([
    ['an output', 'insert into tool_outputs (segment, seq, tool_call_id, output_ref) values (1, 2, 1, $)'],
    ['an attachment', "insert into attachments values (1, 2, 0, 'a', $, 1)"],
    ['an answer', "insert into response_ends values ('r', 1, 2, '', '{}', '', $)"],
    ['a summary', "insert into memories values (1, 2, '', $, '{}', '')"],
  ])('%s whose blob is missing or damaged', async (_, row) => {
    await store.blobs.put('b'.repeat(64), Buffer.from('not what was stored'))
    const database = new Database(join(store.folder, 'waymark.db'))
    database.exec(row.replace('$', `'${'a'.repeat(64)}'`))
    database.exec(
      row
        .replace('1, 2', '1, 3')
        .replace("'r'", "'s'")
        .replace('$', `'${'b'.repeat(64)}'`),
    )
    database.close()
    const { damaged } = await verifyLedger(createUpkeep(store))
    expect(damaged.map(({ flaw }) => flaw)).toEqual([
      expect.stringMatching(/a{64} is missing/),
      expect.stringMatching(/b{64} can't be read/),
    ])
  })

  it('a damaged block of a request', async () => {
    const database = new Database(join(store.folder, 'waymark.db'))
    database.exec("insert into request_blocks values ('c', x'00', 1)")
    database.close()
    const { damaged } = await verifyLedger(createUpkeep(store))
    expect(damaged).toEqual([{ key: 'c', flaw: expect.stringMatching(/block c/) }])
  })
})
