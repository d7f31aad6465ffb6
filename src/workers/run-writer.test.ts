import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AppendCommand, AppendResult } from '../core/ledger.ts'
import { createRunRecord } from '../core/run-record.ts'
import { AppendRefused } from '../core/run-writer.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { createRunWriter } from './run-writer.ts'

const hold = { runId: 'run_x' as const, epoch: 1, frames: 0 }

/** A ledger that answers an append only when `answer` is called. */
function slowLedger() {
  const appended: FrameDraft[] = []
  const answers: ((result: AppendResult) => void)[] = []
  return {
    appended,
    answer(result: AppendResult = { ok: true, firstSeq: 1, lastSeq: 1 }) {
      answers.shift()?.(result)
    },
    waiting: () => answers.length,
    append({ frames }: AppendCommand): Promise<AppendResult> {
      appended.push(...frames)
      return new Promise((resolve) => answers.push(resolve))
    },
  }
}

function writerOn(ledger: ReturnType<typeof slowLedger>, onFailure: (error: Error) => void = () => {}) {
  return createRunWriter({
    ledger,
    tenant: 't',
    conversationId: 'conv_x',
    hold,
    record: createRunRecord(),
    onFailure,
  })
}

const delta = (text: string, output_index = 0): FrameDraft => ({
  kind: 'message.delta',
  output_index,
  item_id: `item_${output_index}`,
  content_index: 0,
  delta: text,
})

const textOf = (frames: readonly FrameDraft[]) =>
  frames.map((frame) => (frame.kind === 'message.delta' ? `${frame.output_index}${frame.delta}` : frame.kind))

describe("a run's writer", () => {
  it('sends a delta at once when no append is in flight, and merges those that arrive meanwhile', async () => {
    const ledger = slowLedger()
    const writer = writerOn(ledger)
    writer.write(delta('one '))
    await expect.poll(ledger.waiting).toBe(1)
    writer.write(delta('two '), delta('three '))
    writer.write(delta('x', 1), { kind: 'lifecycle', status: 'in_progress' }, delta('y', 1))
    expect(textOf(ledger.appended)).toEqual(['0one '])
    ledger.answer()
    await expect
      .poll(() => textOf(ledger.appended))
      .toEqual(['0one ', '0two three ', '1x', 'lifecycle', '1y'])
  })

  it('[L3] loses nothing and keeps the order, whatever it merges', async () => {
    const frame = fc.oneof(
      fc
        .record({ text: fc.string({ minLength: 1, maxLength: 150 }), index: fc.nat(1) })
        .map(({ text, index }) => delta(text, index)),
      fc.constant<FrameDraft>({ kind: 'lifecycle', status: 'in_progress' }),
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(frame, fc.constantFrom('write', 'answer', 'flush')), { maxLength: 60 }),
        async (steps) => {
          const ledger = slowLedger()
          const writer = writerOn(ledger)
          const flushed: Promise<void>[] = []
          for (const [one, then] of steps) {
            writer.write(one)
            if (then === 'answer') ledger.answer()
            if (then === 'flush') flushed.push(writer.flush())
            if (then !== 'write') await Promise.resolve()
          }
          flushed.push(writer.flush())
          while (ledger.waiting() > 0) {
            ledger.answer()
            await Promise.resolve()
          }
          await Promise.all(flushed)
          expect(whole(ledger.appended)).toEqual(whole(steps.map(([one]) => one)))
        },
      ),
      { numRuns: 200 },
    )
  })

  it('[L3] stops at the first frame that is not stored', async () => {
    const ledger = slowLedger()
    const failures: Error[] = []
    const writer = writerOn(ledger, (error) => failures.push(error))
    writer.write(delta('one'))
    const flushed = writer.flush()
    ledger.answer({ ok: false, refusal: 'lease_lost' })
    await expect(flushed).rejects.toBeInstanceOf(AppendRefused)
    expect(failures).toHaveLength(1)
    expect(() => writer.write(delta('two'))).toThrow(AppendRefused)
    expect(ledger.appended).toHaveLength(1)
  })
})

/** Frames with adjacent deltas of one item merged. */
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
