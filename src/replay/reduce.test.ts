import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AnyFrame, FrameDraft } from '../protocol/frames.ts'
import { cutTranscript } from './cut.ts'
import { joinTranscripts } from './join.ts'
import { applyFrames } from './reduce.ts'
import { emptyTranscript, type RunEntry, type ToolItem, type Transcript } from './transcript.ts'

const RUN = 'run_a'

/** Drafts as frames of one conversation, numbered from `from`. */
function frames(
  drafts: readonly (FrameDraft | (FrameDraft & { run: string | null }))[],
  from = 1,
): AnyFrame[] {
  return drafts.map((draft, index) => ({
    schema: 'public_sse_v1',
    event_id: from + index,
    conversation_id: 'conv_a',
    stream_id: 'run' in draft ? draft.run : isOutsideRuns(draft) ? null : RUN,
    sequence_number: index + 1,
    server_timestamp: `2026-01-01T00:00:00.${String(from + index).padStart(3, '0')}Z`,
    ...draft,
  })) as AnyFrame[]
}

function isOutsideRuns(draft: FrameDraft): boolean {
  return draft.kind.startsWith('conversation.') || draft.kind.startsWith('session.')
}

function replay(...drafts: FrameDraft[]): Transcript {
  return applyFrames(emptyTranscript(), frames(drafts))
}

function runOf(transcript: Transcript): RunEntry {
  const run = transcript.entries.find((entry) => entry.type === 'run')
  if (run?.type !== 'run') throw new Error('there is no run')
  return run
}

const item = (index: number) => ({ response_id: 'resp_1', output_index: index, item_id: `item_${index}` })
const word = (index: number, text: string, part = 0): FrameDraft => ({
  kind: 'message.delta',
  ...item(index),
  content_index: part,
  delta: text,
})
const call = (index: number) => ({ ...item(index), tool_call_id: `call_${index}` })
const output = (index: number, value: unknown, partial?: boolean): FrameDraft => ({
  kind: 'tool.output',
  ...call(index),
  tool_type: 'function',
  output: value,
  ...(partial === undefined ? {} : { partial }),
})
const done: FrameDraft = { kind: 'final', final: { status: 'completed', response_text: 'x' } }

describe('the transcript reducer', () => {
  it('groups text by output_index and content_index, in whatever order it arrives', () => {
    const { items } = runOf(
      replay(
        word(1, 'second '),
        word(0, 'fi', 1),
        word(0, 'part 0', 0),
        word(1, 'item'),
        word(0, 'rst', 1),
        done,
      ),
    )
    expect(items.map((one) => one.type === 'text' && one.parts.map((part) => part.text))).toEqual([
      ['part 0', 'first'],
      ['second item'],
    ])
  })

  it('[L6] keeps an item whose id rotates as one item', () => {
    const rotating = (id: string, text: string): FrameDraft => ({ ...word(0, text), item_id: id })
    const { items } = runOf(replay(rotating('a', 'one '), rotating('b', 'two '), rotating('c', 'three')))
    expect(items).toMatchObject([{ itemIds: ['a', 'b', 'c'], parts: [{ text: 'one two three' }] }])
  })

  it('treats the same output_index in another response as another item', () => {
    const second = { ...word(0, 'again'), response_id: 'resp_2' } as FrameDraft
    expect(runOf(replay(word(0, 'once'), second)).items).toHaveLength(2)
  })

  it('[L6] joins the frames of a tool card by tool_call_id, whatever item they name', () => {
    const { items } = runOf(
      replay(
        { kind: 'output_item.added', ...item(0), item_type: 'function_call' },
        {
          kind: 'tool.arguments.delta',
          ...call(0),
          tool_type: 'function',
          tool_name: 'read_file',
          delta: '{"a"',
        },
        {
          kind: 'tool.arguments.delta',
          ...call(0),
          tool_type: 'function',
          tool_name: 'read_file',
          delta: ':1}',
        },
        {
          kind: 'tool.arguments.done',
          ...call(0),
          tool_type: 'function',
          tool_name: 'read_file',
          arguments_text: '{"a":1}',
          arguments_json: { a: 1 },
        },
        { ...output(0, 'the file'), item_id: 'something else', output_index: 7 },
      ),
    )
    expect(items).toMatchObject([
      { type: 'tool', name: 'read_file', argumentsJson: { a: 1 }, output: 'the file', phase: 'output' },
    ])
  })

  it('never moves a card back to an earlier phase', () => {
    const status = (text: string): FrameDraft => ({
      kind: 'tool.status',
      ...call(0),
      tool: { tool_type: 'function', tool_call_id: 'call_0', status: text, name: 'x' },
    })
    const card = (transcript: Transcript) => runOf(transcript).items[0] as ToolItem
    expect(card(replay(status('in_progress'), output(0, 1), status('in_progress')))).toMatchObject({
      phase: 'output',
      output: 1,
    })
    expect(card(replay(status('failed'), status('completed'), output(0, 1)))).toMatchObject({
      phase: 'failed',
    })
    expect(card(replay(status('completed'), status('in_progress')))).toMatchObject({
      toolStatus: 'completed',
    })
  })

  it('appends the output of a running command, and replaces it with the final output', () => {
    const partial = replay(output(0, 'one\n', true), output(0, 'two\n', true))
    expect(runOf(partial).items).toMatchObject([{ output: 'one\ntwo\n', phase: 'called', endedAt: null }])
    const whole = replay(output(0, 'one\n', true), output(0, { exit: 0 }))
    expect(runOf(whole).items).toMatchObject([{ output: { exit: 0 }, phase: 'output' }])
  })

  it('joins chunked values, each chunk once', () => {
    const target = { entity_kind: 'tool_call' as const, entity_id: 'call_0', field: 'image', part_index: 1 }
    const piece = (index: number, data: string): FrameDraft => ({
      kind: 'chunk.delta',
      ...item(0),
      target,
      encoding: 'base64',
      chunk_index: index,
      data,
    })
    const { items } = runOf(
      replay(
        { kind: 'output_item.added', ...item(0), item_type: 'image_generation_call' },
        piece(0, 'AAA'),
        piece(1, 'BBB'),
        piece(1, 'BBB'),
        { kind: 'chunk.done', ...item(0), target },
      ),
    )
    expect(items).toMatchObject([
      {
        type: 'tool',
        toolType: 'image_generation',
        chunks: { 'image.1': { data: 'AAABBB', pieces: 2, done: true, encoding: 'base64' } },
      },
    ])
  })

  it('places reasoning, refusals and citations in their items', () => {
    const { items } = runOf(
      replay(
        { kind: 'reasoning_summary.part.added', ...item(0), summary_index: 0, text: '' },
        { kind: 'reasoning_summary.delta', ...item(0), summary_index: 0, delta: 'think' },
        { kind: 'reasoning_summary.part.done', ...item(0), summary_index: 0, text: 'thinking' },
        {
          kind: 'message.citation',
          ...item(1),
          content_index: 0,
          citation: { type: 'url', url: 'https://a' },
        },
        { kind: 'refusal.delta', ...item(1), content_index: 0, delta: 'I wo' },
        { kind: 'refusal.done', ...item(1), content_index: 0, refusal_text: "I won't" },
      ),
    )
    expect(items).toMatchObject([
      { type: 'reasoning', parts: [{ text: 'thinking' }] },
      { type: 'text', parts: [{ refusal: "I won't", citations: [{ url: 'https://a' }] }] },
    ])
  })

  it('shows a file edit on the card of its call, or as a mark of its own', () => {
    const edit = (tool_call_id?: string): FrameDraft => ({
      kind: 'file.edit',
      path: 'a.txt',
      additions: 1,
      deletions: 0,
      change: 'added',
      ...(tool_call_id === undefined ? {} : { tool_call_id }),
    })
    const { items } = runOf(replay(output(0, 'ok'), edit('call_0'), edit()))
    expect(items).toMatchObject([
      { type: 'tool', edits: [{ path: 'a.txt', change: 'added' }] },
      { type: 'mark', mark: { kind: 'edit' } },
    ])
  })

  it('shows how a run ended, and which items were open then', () => {
    expect(runOf(replay(word(0, 'x'), done))).toMatchObject({
      status: 'completed',
      items: [{ status: 'completed' }],
    })
    expect(runOf(replay(word(0, 'x'), { kind: 'final', final: { status: 'cancelled' } }))).toMatchObject({
      status: 'cancelled',
      items: [{ status: 'incomplete' }],
    })
    const error = {
      code: 'rate_limit',
      message: 'slow down',
      source: 'provider' as const,
      is_retryable: true,
    }
    expect(runOf(replay(word(0, 'x'), { kind: 'error', error }))).toMatchObject({
      status: 'failed',
      error,
      items: [{ status: 'incomplete' }],
    })
  })

  it('[L6] shows two calls at one index as two cards, and keeps a call at the index of a text', () => {
    const second = { ...output(0, 'B'), tool_call_id: 'call_other' } as FrameDraft
    expect(runOf(replay(output(0, 'A'), second)).items).toMatchObject([
      { toolCallId: 'call_0', output: 'A' },
      { toolCallId: 'call_other', output: 'B' },
    ])
    expect(runOf(replay(word(0, 'text'), output(0, 'A'))).items).toMatchObject([
      { type: 'text' },
      { type: 'tool', output: 'A' },
    ])
  })

  it('keeps chunks that arrive before their card or belong to text', () => {
    const piece = (index: number, field: string): FrameDraft => ({
      kind: 'chunk.delta',
      ...item(index),
      target: { entity_kind: 'message', entity_id: 'x', field },
      encoding: 'utf8',
      chunk_index: 0,
      data: 'piece',
    })
    const { items } = runOf(
      replay(piece(0, 'image'), output(0, 'A'), word(1, 'text'), piece(1, 'constructor')),
    )
    const data = items.map(
      (one) => one.type !== 'mark' && Object.values(one.chunks).map((value) => value.data),
    )
    expect(data).toEqual([['piece'], ['piece']])
    expect(items.map((one) => one.type)).toEqual(['tool', 'text'])
  })

  it('marks a run as incomplete after a cut in its middle, but not after a message', () => {
    const cut: FrameDraft = { kind: 'conversation.truncated', cut_after: 1, message_id: 'm', by: 'me' }
    expect(runOf(replay(word(0, 'half'), cut))).toMatchObject({ status: 'incomplete' })
    const message = {
      kind: 'message.user',
      message_id: 'm',
      content: 'q',
      run: null,
    } as unknown as FrameDraft
    expect(runOf(replay(word(0, 'a'), message, done))).toMatchObject({
      status: 'completed',
      items: [{ status: 'completed' }],
    })
  })

  it('marks a run as incomplete after a fork in its middle', () => {
    const forked: FrameDraft = {
      kind: 'conversation.forked',
      parent_conversation_id: 'conv_p',
      from_event_number: 1,
    }
    expect(runOf(replay(word(0, 'half'), forked))).toMatchObject({
      status: 'incomplete',
      items: [{ status: 'incomplete', parts: [{ text: 'half' }] }],
    })
  })

  it('shows checkpoints and approvals as marks', () => {
    const id = 'a'.repeat(40)
    const transcript = replay(
      {
        kind: 'workspace.checkpoint',
        checkpoint_id: id,
        work_session: 'session_1',
        label: 'Initial checkpoint',
        files: 1,
        changed: 1,
        excluded: 0,
      },
      {
        kind: 'session.approved',
        approved_commit: id,
        closed_session: 'session_1',
        new_session: 'session_2',
        commits_approved: 1,
      },
    )
    expect(runOf(transcript).items).toMatchObject([{ mark: { kind: 'checkpoint' } }])
    expect(transcript.entries.at(-1)).toMatchObject({ type: 'mark', mark: { kind: 'approved' } })
  })

  it('[L10] keeps unknown kinds and items by name, and continues', () => {
    const unknown = { kind: 'quantum.leap', leap: 1 } as unknown as FrameDraft
    const { items } = runOf(
      replay(unknown, { kind: 'output_item.added', ...item(0), item_type: 'dream' }, word(1, 'x')),
    )
    expect(items).toMatchObject([
      { type: 'mark', mark: { kind: 'unknown', frameKind: 'quantum.leap' } },
      { type: 'other', itemType: 'dream' },
      { type: 'text' },
    ])
  })

  it('removes everything after the cut of a conversation.truncated frame, including the title', () => {
    const before = frames([
      { kind: 'conversation.created', title: 'First' },
      { kind: 'message.user', message_id: 'msg_1', content: 'kept' },
      { kind: 'message.user', message_id: 'msg_2', content: 'dropped' },
      { kind: 'conversation.retitled', title: 'Second' },
    ])
    const [cut] = frames([{ kind: 'conversation.truncated', cut_after: 2, message_id: 'msg_2', by: 'me' }], 3)
    const transcript = applyFrames(applyFrames(emptyTranscript(), before), [cut as AnyFrame])
    expect(transcript).toMatchObject({ title: 'First', head: 3 })
    expect(transcript.entries.flatMap((entry) => (entry.type === 'message' ? entry.content : []))).toEqual([
      'kept',
    ])
    expect(applyFrames(transcript, [cut as AnyFrame])).toEqual(transcript)
  })

  it('removes the whole entry that a cut goes through, and returns where to resume', () => {
    const transcript = replay(
      { kind: 'conversation.created' },
      { kind: 'message.user', message_id: 'msg_1', content: 'x' },
      word(0, 'a'),
      word(0, 'b'),
    )
    expect(cutTranscript(transcript, 3)).toMatchObject({ head: 2, entries: [{ type: 'message' }] })
    expect(cutTranscript(transcript, 4)).toBe(transcript)
  })

  it('reverts changes that events after the cut made to earlier entries', () => {
    const open = frames([
      { kind: 'message.user', message_id: 'msg_1', content: 'one', run: null },
      { ...word(0, 'un'), run: 'run_1' },
      { kind: 'message.user', message_id: 'msg_2', content: 'two', run: null },
      { ...word(0, 'deux'), run: 'run_2' },
      { ...word(0, 'deux'), run: 'run_2' },
    ])
    const whole = applyFrames(emptyTranscript(), open)
    // A cut through the second run, whose first frame ended the first one.
    const cut = cutTranscript(whole, 4)
    const truncated = { kind: 'conversation.truncated' as const, cut_after: 3, message_id: 'm', by: 'b' }
    const later = { server_timestamp: '2026-01-01T00:00:09.000Z' }
    const line = [...open.slice(0, 3), ...frames([{ ...truncated, ...later }], 4)]
    const again = applyFrames(cut, line.slice(cut.head))
    expect(again).toEqual(applyFrames(emptyTranscript(), line))
  })

  it('applies repeated frames once', () => {
    const all = frames([word(0, 'a'), word(0, 'b'), done])
    expect(applyFrames(applyFrames(emptyTranscript(), all), all)).toEqual(applyFrames(emptyTranscript(), all))
  })

  it('returns the same transcript for any batches of frames, and never changes an earlier one', () => {
    const draft = fc.oneof(
      fc.tuple(fc.nat(3), fc.string(), fc.nat(2)).map(([index, text, part]) => word(index, text, part)),
      fc.tuple(fc.nat(3), fc.string()).map(([index, text]) => output(index, text, true)),
      fc.nat(3).map((index) => output(index, { index })),
      fc.constant<FrameDraft>({ kind: 'message.user', message_id: 'm', content: 'q' }),
      fc.constant<FrameDraft>({ kind: 'lifecycle', status: 'in_progress' }),
      fc.constant<FrameDraft>({ kind: 'conversation.retitled', title: 't' }),
      fc.constant(done),
    )
    const withRun = fc.tuple(draft, fc.constantFrom('run_a', 'run_b')).map(([one, run]) => ({ ...one, run }))
    fc.assert(
      fc.property(
        fc.array(withRun, { maxLength: 40 }),
        fc.array(fc.integer({ min: 1, max: 7 })),
        (drafts, sizes) => {
          const all = frames(drafts)
          const whole = applyFrames(emptyTranscript(), all)
          let transcript = emptyTranscript()
          const kept: [Transcript, string][] = []
          for (let at = 0, lot = 0; at < all.length; lot++) {
            const size = sizes[lot % Math.max(sizes.length, 1)] ?? 3
            transcript = applyFrames(transcript, all.slice(at, at + size))
            kept.push([transcript, JSON.stringify(transcript)])
            at += size
          }
          expect(transcript).toEqual(whole)
          for (const [earlier, text] of kept) expect(JSON.stringify(earlier)).toBe(text)
        },
      ),
    )
  })

  it('[P6] joins parts that start at a message into the whole, also after a run that never ended', () => {
    const message = (id: string): FrameDraft => ({ kind: 'message.user', message_id: id, content: id })
    const said = (delta: string): FrameDraft => ({
      kind: 'message.delta',
      ...item(0),
      content_index: 0,
      delta,
    })
    const all = frames([
      { ...message('msg_1'), run: 'run_1' },
      { ...said('half an ans'), run: 'run_1' },
      { ...message('msg_2'), run: 'run_2' },
      { ...said('whole'), run: 'run_2' },
      { kind: 'final', final: { status: 'completed' }, run: 'run_2' },
    ])
    const whole = applyFrames(emptyTranscript(), all)
    expect(runOf(whole)).toMatchObject({ status: 'incomplete', upTo: 4 })
    const [one, two] = [
      applyFrames(emptyTranscript(), all.slice(0, 2)),
      applyFrames(emptyTranscript(3), all.slice(2)),
    ]
    expect(runOf(one)).toMatchObject({ status: 'in_progress', endedAt: null })
    expect(joinTranscripts(one, two)).toEqual(whole)
    expect(() => joinTranscripts(two, one)).toThrow(/do not join/)
  })

  it('counts the time that a call waited for a person', () => {
    const call = { ...item(0), tool_call_id: 'call_1' }
    const approval = { kind: 'tool.approval', ...call, tool_name: 'run_command' } as const
    const tool = { tool_type: 'function', tool_call_id: 'call_1', name: 'run_command' }
    const transcript = replay(
      { kind: 'output_item.added', ...item(0), item_type: 'function_call' },
      { ...approval, status: 'requested' },
      { kind: 'tool.status', ...call, tool: { ...tool, status: 'awaiting_approval' } },
      { ...approval, status: 'approved' },
      { kind: 'tool.status', ...call, tool: { ...tool, status: 'completed' } },
    )
    const [shown] = runOf(transcript).items
    expect(shown).toMatchObject({ waitedMs: 2, waitingSince: null })
  })
})
