import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { delta } from '../../test/support/frames.ts'
import type { BlobStore } from '../core/blobs.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { createAppends } from './appends.ts'
import { createDatabase } from './database.ts'
import type { Engine, Outcome } from './engine.ts'
import { SPILL_BYTES } from './spill.ts'
import type { AppendRequest } from './sql/lines/append.ts'
import type { WriteCall } from './sql/operations.ts'

/** An engine that answers a group only when `answer` is called, in front of a real queue of appends. */
function openSlowly() {
  const groups: AppendRequest[][] = []
  const answers: (() => void)[] = []
  const blobs = new Map<string, Uint8Array>()
  let isFull = false
  const engine: Partial<Engine> = {
    groupsInFlight: 2,
    onForeignChange() {},
    write(group: readonly WriteCall[]): Promise<Outcome[]> {
      const requests = group.map(({ argument }) => argument as AppendRequest)
      groups.push(requests.map((request) => ({ ...request, drafts: [...request.drafts] })))
      const result = { ok: true, firstSeq: 1, lastSeq: 1 }
      return new Promise((resolve) => answers.push(() => resolve(group.map(() => ({ result })))))
    },
  }
  const store: Partial<BlobStore> = {
    async put(key, bytes) {
      if (isFull) throw new Error('no space')
      blobs.set(key, bytes)
    },
  }
  const appends = createAppends({
    database: createDatabase({ engine: engine as Engine }),
    blobs: store as BlobStore,
    clock: { now: () => 0 },
  })
  const hold = { runId: 'run_x' as const, epoch: 1, frames: 0 }
  const requests = () => groups.flat()
  return {
    groups,
    requests,
    frames: () =>
      requests().flatMap(({ drafts }) => drafts.map(({ text }) => JSON.parse(text) as FrameDraft)),
    inFlight: () => answers.length,
    answer: () => answers.shift()?.(),
    fillDisk: () => {
      isFull = true
    },
    append: (...frames: FrameDraft[]) =>
      appends.append({ tenant: 't', conversationId: 'conv_x', run: hold, frames, mayGrow: true }),
  }
}

const lifecycle: FrameDraft = { kind: 'lifecycle', status: 'in_progress' }
const textOf = (frames: readonly FrameDraft[]) =>
  frames.map((frame) => (frame.kind === 'message.delta' ? `${frame.output_index}${frame.delta}` : frame.kind))

describe('appends of a run', () => {
  it('share a transaction when they arrive in one turn, each delta in its own frame', async () => {
    const ledger = openSlowly()
    void ledger.append(delta('one '))
    void ledger.append(delta('two '))
    await expect.poll(ledger.inFlight).toBe(1)
    expect(textOf(ledger.frames())).toEqual(['0one ', '0two '])
    expect(ledger.requests()).toHaveLength(1)
  })

  it('join the deltas of a part while an append is in flight', async () => {
    const ledger = openSlowly()
    for (const text of ['one ', 'two ']) {
      const inFlight = ledger.inFlight()
      void ledger.append(delta(text))
      await expect.poll(ledger.inFlight).toBe(inFlight + 1)
    }
    void ledger.append(delta('three '))
    void ledger.append(delta('four '))
    void ledger.append(delta('x', 1), lifecycle, delta('y', 1))
    ledger.answer()
    await expect
      .poll(() => textOf(ledger.frames()))
      .toEqual(['0one ', '0two ', '0three four ', '1x', 'lifecycle', '1y'])
    expect(ledger.requests().map(({ after }) => after)).toEqual([0, 1, 2])
  })

  it('[L5] never add a frame to an append that ends the run', async () => {
    const ledger = openSlowly()
    void ledger.append({ kind: 'final', final: { status: 'completed' } })
    void ledger.append(delta('late'))
    await expect.poll(() => ledger.requests().length).toBe(2)
    expect(ledger.requests().map(({ drafts }) => drafts.length)).toEqual([1, 1])
  })

  it('[L3] count a large frame that could not be stored, so that the ledger refuses those after it', async () => {
    const ledger = openSlowly()
    ledger.fillDisk()
    const lost = ledger.append(delta('L'.repeat(SPILL_BYTES)))
    void ledger.append(delta('after it'))
    await expect(lost).rejects.toThrow('no space')
    await expect.poll(() => ledger.requests()).toMatchObject([{ after: 1 }])
  })

  it('[L3] lose nothing and keep the order, whatever is joined', async () => {
    const frame = fc.oneof(
      { weight: 8, arbitrary: fc.tuple(fc.string({ minLength: 1, maxLength: 150 }), fc.nat(1)) },
      { weight: 1, arbitrary: fc.constant(['L'.repeat(SPILL_BYTES), 0] as [string, number]) },
    )
    const step = fc.tuple(
      fc.oneof(
        frame.map(([text, index]) => delta(text, index)),
        fc.constant(lifecycle),
      ),
      fc.constantFrom('write', 'answer', 'turn'),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const ledger = openSlowly()
        const stored: Promise<unknown>[] = []
        for (const [one, then] of steps) {
          stored.push(ledger.append(one))
          if (then === 'answer') ledger.answer()
          if (then !== 'write') await new Promise(setImmediate)
        }
        const all = Promise.all(stored)
        const answering = setInterval(() => ledger.answer(), 0)
        await all.finally(() => clearInterval(answering))
        expect(whole(ledger.frames())).toEqual(whole(steps.map(([one]) => one)))
        let count = 0
        for (const { after, drafts } of ledger.requests()) {
          expect(after).toBe(count)
          count += drafts.length
        }
      }),
      { numRuns: 60 },
    )
  })
})

/** Frames with adjacent deltas of one item joined. */
function whole(frames: readonly FrameDraft[]): string[] {
  const parts: string[] = []
  let last: string | null = null
  for (const frame of frames) {
    const key = frame.kind === 'message.delta' ? `${frame.output_index}:` : null
    const text = frame.kind === 'message.delta' ? frame.delta : frame.kind
    if (key !== null && key === last) parts[parts.length - 1] += text
    else parts.push((key ?? '') + text)
    last = key
  }
  return parts
}
