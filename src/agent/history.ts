import type { Attachment } from '../core/queue.ts'
import type { Entry } from '../core/request-plan.ts'
import type { PartOrigin } from '../core/responses.ts'
import type { AnyFrame, Frame } from '../protocol/frames.ts'

/** An item with its origin, made in one place. */
export interface Made {
  origin: PartOrigin
  item: object
}

export type NewEntry = Made & Pick<Entry, 'turn'>

/**
 * Builds the history for the model from the frames alone: for the part of a line that no agent state covers, because a run
 * was stopped or failed, or because the line was forked or cut in the middle of one.
 */
export function historyOf(
  frames: Iterable<AnyFrame>,
  /** Converts a message's attachments to items. */
  attached: (attachments: readonly Attachment[]) => Made[] = () => [],
): NewEntry[] {
  const history: NewEntry[] = []
  const texts = new Map<string, { role: 'assistant'; content: string }>()
  let turn = 'unknown'
  const calls = new Map<string, { name: string; written: string; isAnswered: boolean }>()

  const message = (role: 'user' | 'assistant') => ({ type: 'message' as const, role, message_id: turn })

  function say(frame: Frame<'message.delta'>): void {
    const key = `${frame.stream_id} ${frame.response_id} ${frame.output_index}`
    let item = texts.get(key)
    if (!item) {
      item = { role: 'assistant', content: '' }
      texts.set(key, item)
      history.push({ origin: message('assistant'), item, turn })
    }
    item.content += frame.delta
  }

  function call(frame: Frame<'tool.arguments.done'>): void {
    calls.set(frame.tool_call_id, {
      name: frame.tool_name,
      written: frame.arguments_text,
      isAnswered: false,
    })
    const item = {
      type: 'function_call',
      call_id: frame.tool_call_id,
      name: frame.tool_name,
      // Arguments that were truncated for the frame are no longer valid JSON.
      arguments: isJson(frame.arguments_text) ? frame.arguments_text : '{}',
    }
    const { tool_call_id, tool_name } = frame
    history.push({ origin: { type: 'tool_call', tool_call_id, name: tool_name }, item, turn })
  }

  function answer(toolCallId: string, output: unknown): void {
    const known = calls.get(toolCallId)
    if (!known || known.isAnswered) return
    known.isAnswered = true
    const text = typeof output === 'string' ? output : JSON.stringify(output)
    const item = { type: 'function_call_output', call_id: toolCallId, output: text }
    history.push({ origin: { type: 'tool_output', tool_call_id: toolCallId }, item, turn })
  }

  /** A model must not be sent a call without an outcome. */
  function answerOpenCalls(): void {
    for (const [id, { isAnswered }] of calls) if (!isAnswered) answer(id, 'This call was not completed.')
  }

  for (const any of frames) {
    const frame = any as Frame
    if (frame.kind === 'message.user') {
      answerOpenCalls()
      turn = frame.message_id
      for (const made of attached(frame.attachments ?? [])) history.push({ ...made, turn })
      history.push({ origin: message('user'), item: { role: 'user', content: frame.content }, turn })
    } else if (frame.kind === 'message.delta') say(frame)
    else if (frame.kind === 'tool.arguments.done' && frame.tool_type === 'function') call(frame)
    else if (frame.kind === 'tool.output' && !frame.partial) answer(frame.tool_call_id, frame.output)
    else if (frame.kind === 'final' && frame.final.status === 'cancelled') {
      answerOpenCalls()
      const item = { role: 'user', content: '[The person stopped this answer.]' }
      history.push({ origin: message('user'), item, turn })
    } else if (frame.kind === 'error') answerOpenCalls()
  }
  answerOpenCalls()
  return history
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
