import { describe, expect, it } from 'vitest'
import { delta } from '../../test/support/frames.ts'
import type { AppendCommand, AppendResult } from '../core/ledger.ts'
import { createRunRecord } from '../core/run-record.ts'
import { AppendRefused } from '../core/run-writer.ts'
import { createRunWriter } from './run-writer.ts'

describe("a run's writer", () => {
  it('[L3] stops at the first frame that is not stored', async () => {
    const appended: AppendCommand[] = []
    const answer = Promise.withResolvers<AppendResult>()
    const failures: Error[] = []
    const writer = createRunWriter({
      ledger: {
        append(command) {
          appended.push(command)
          return answer.promise
        },
      },
      tenant: 't',
      conversationId: 'conv_x',
      hold: { runId: 'run_x', epoch: 1, frames: 0 },
      record: createRunRecord(),
      onFailure: (error) => failures.push(error),
    })
    writer.write(delta('one'))
    const flushed = writer.flush()
    answer.resolve({ ok: false, refusal: 'lease_lost' })
    await expect(flushed).rejects.toBeInstanceOf(AppendRefused)
    expect(failures).toHaveLength(1)
    expect(() => writer.write(delta('two'))).toThrow(AppendRefused)
    expect(appended).toHaveLength(1)
  })
})
