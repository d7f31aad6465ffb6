import { expect, it } from 'vitest'
import { delta, final, userMessage } from '../../test/support/frames.ts'
import type { AnyFrame, FrameDraft } from '../protocol/frames.ts'
import { applyFrames } from '../replay/reduce.ts'
import { emptyTranscript } from '../replay/transcript.ts'
import { createTranscriptPrinter } from './print-transcript.ts'

const frameOf = (draft: FrameDraft, index: number) =>
  ({
    schema: 'public_sse_v1',
    event_id: index + 1,
    conversation_id: 'conv_x',
    stream_id: 'run_x',
    sequence_number: index + 1,
    server_timestamp: '2026-11-17T00:00:00.000Z',
    ...draft,
  }) as unknown as AnyFrame

it('prints each answer once while it grows', () => {
  const drafts = [
    userMessage('hi'),
    ...['one ', 'two ', 'three'].map((word) => delta(word)),
    final('one two three'),
  ]
  let printed = ''
  const printer = createTranscriptPrinter((text) => (printed += text), { details: true, places: true })
  let transcript = emptyTranscript()
  for (const frame of drafts.map(frameOf)) {
    transcript = applyFrames(transcript, [frame])
    printer.show(transcript)
  }
  expect(printed.match(/run_x/g)).toHaveLength(1)
  expect(printed).toContain('one two three\n· to event 5')
})
