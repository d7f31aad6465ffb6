import { describe, expect, it } from 'vitest'
import { planMemory } from './memory.ts'
import { type Chain, type Entry, needsEarlier, noneEarlier, planRequest } from './request-plan.ts'

const entry = (item: object, turn: string | null = 'a', tokens = 10): Entry => ({ item, turn, tokens })
const around = { files: [], skipped: [], chunks: [] }
const chain = (entries: number): Chain => ({
  responseId: 'resp_1',
  at: 0,
  model: 'm',
  provider: null,
  entries,
  files: {},
  chunks: [],
})
const situation = {
  turn: 'b',
  earlier: noneEarlier,
  surroundings: around,
  now: 1,
  model: 'm',
  provider: null,
  isKept: true,
  sendable: (item: object) => item,
}

describe('a long history', () => {
  const earlier = { count: 1000, tokens: 50_000 }
  const last = [entry({ role: 'user', content: 'new' }, 'b')]

  it('[C2] is not loaded for a follow-up, whose record counts what the provider already has', () => {
    const followUp = { ...situation, entries: last, earlier, chain: chain(1000) }
    expect(needsEarlier(followUp)).toBe(false)
    const { input, parts, held, seen } = planRequest(followUp)
    expect(input).toEqual([{ role: 'user', content: 'new' }])
    expect(parts).toHaveLength(1)
    expect(held).toEqual({ parts: 1000, tokens: 50_000 })
    expect(seen.entries).toBe(1001)
  })

  it('[C4] is loaded when the chain has ended or has not seen all of it', () => {
    for (const one of [
      { ...situation, chain: null },
      { ...situation, chain: chain(1000), broken: 'refused' as const },
      { ...situation, chain: chain(999) },
      { ...situation, chain: chain(1000), isKept: false },
    ]) {
      expect(needsEarlier({ ...one, entries: last, earlier })).toBe(true)
    }
  })

  it('[C1] is one part of the record, except for its last 400 entries', () => {
    const entries = Array.from({ length: 5000 }, (_, i) => entry({ role: 'user', content: `${i}` }))
    const { input, parts } = planRequest({ ...situation, entries, chain: null })
    expect(input).toHaveLength(5000)
    expect(parts).toHaveLength(401)
    expect(parts[0]).toMatchObject({ origin: { type: 'history', parts: 4600 }, tokens: 46_000, sent: true })
  })
})

describe('planning a request', () => {
  const entries = [
    entry({ role: 'user', content: 'do it' }),
    entry({ type: 'reasoning', id: 'rs_1', summary: [] }),
    entry({
      type: 'function_call',
      id: 'fc_1',
      call_id: 'c',
      name: 'f',
      arguments: '{}',
      status: 'completed',
    }),
    entry({ type: 'function_call_output', call_id: 'c', output: 'done' }),
    entry({
      type: 'message',
      id: 'msg_1',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Done.' }],
    }),
    entry({ role: 'user', content: 'thanks' }, 'b'),
  ]

  it('[C2] continues the chain, and starts a new one when that has seen more than the history', () => {
    expect(planRequest({ ...situation, entries, chain: chain(5) })).toMatchObject({
      step: 'follow_up',
      previousResponseId: 'resp_1',
      input: [{ role: 'user', content: 'thanks' }],
    })
    expect(planRequest({ ...situation, entries, chain: chain(7) })).toMatchObject({
      step: 'memory',
      previousResponseId: null,
    })
  })
})

describe('planning memory', () => {
  const turns = (count: number): Entry[] =>
    Array.from({ length: count }, (_, n) => [
      entry({ role: 'user', content: 'x' }, `t${n}`, 50),
      entry({ role: 'assistant', content: 'y' }, `t${n}`, 50),
    ]).flat()
  const given = { entries: turns(10), turn: 't9', budget: 500, besides: 100, isWanted: false }

  it('[C6] does nothing while there is room', () => {
    expect(planMemory({ ...given, budget: 2000, strategy: 'trim' })).toBe(null)
  })

  it('[C6] never drops the turn that is being answered, and drops the oldest first', () => {
    const plan = planMemory({ ...given, strategy: 'trim' })
    expect(plan?.dropped).toEqual(['t0', 't1', 't2', 't3', 't4', 't5', 't6', 't7'])
    expect(plan?.kept.map((one) => one.turn)).toEqual(['t8', 't8', 't9', 't9'])
    expect(planMemory({ ...given, budget: 101, strategy: 'trim' })?.kept.map((one) => one.turn)).toEqual([
      't9',
      't9',
    ])
  })

  it('[C6] includes the previous summary in a new one', () => {
    const entries = [entry({ role: 'user', content: '<summary>' }, null, 40), ...turns(10)]
    const plan = planMemory({ ...given, entries, strategy: 'summarize' })
    expect(plan?.summarized[0]?.turn).toBe(null)
    expect(plan?.kept.some((one) => one.turn === null)).toBe(false)
  })
})
