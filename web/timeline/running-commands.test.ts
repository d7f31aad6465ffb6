import { describe, expect, it } from 'vitest'
import type { AnyFrame, FrameDraft } from '../../src/protocol/frames.ts'
import { applyFrames } from '../../src/replay/reduce.ts'
import { emptyTranscript } from '../../src/replay/transcript.ts'
import { isCommandRunning } from './running-commands.ts'

const call = { response_id: 'resp_1', output_index: 0, item_id: 'item_1', tool_call_id: 'call_1' }
const status = (state: 'executing' | 'completed'): FrameDraft => ({
  kind: 'tool.status',
  ...call,
  tool: {
    tool_type: 'function',
    tool_call_id: 'call_1',
    name: 'run_command',
    status: state,
    file_effect: 'unrecorded',
  },
})
const output: FrameDraft = { kind: 'tool.output', ...call, tool_type: 'function', output: 'done' }

function isRunningAfter(...drafts: FrameDraft[]): boolean {
  const frames = drafts.map((draft, index) => ({
    schema: 'public_sse_v1',
    event_id: index + 1,
    conversation_id: 'conv_a',
    stream_id: 'run_a',
    sequence_number: index + 1,
    server_timestamp: '2026-01-01T00:00:00.000Z',
    ...draft,
  })) as AnyFrame[]
  return isCommandRunning(applyFrames(emptyTranscript(), frames))
}

describe('the note about running commands', () => {
  it('shows while a command runs, and not after it has ended', () => {
    expect(isRunningAfter(status('executing'))).toBe(true)
    expect(isRunningAfter(status('executing'), output, status('completed'))).toBe(false)
  })
})
