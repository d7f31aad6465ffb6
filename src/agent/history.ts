import type { Entry } from '../core/context.ts'
import type { Attachment } from '../core/queue.ts'
import type { AnyFrame, Frame } from '../protocol/frames.ts'

/**
 * What was said and done, as the model is told of it, from the frames alone: for the part of a line that no agent state
 * covers, because a run was stopped or failed, or because the line was forked or cut in the middle of one.
 */
export function historyOf(
  frames: Iterable<AnyFrame>,
  /** What goes along with a message, as items. */
  attached: (attachments: readonly Attachment[]) => object[] = () => [],
): Omit<Entry, 'tokens'>[] {
  const history: Omit<Entry, 'tokens'>[] = []
  const texts = new Map<string, { role: 'assistant'; content: string }>()
  let turn = 'unknown'
  const calls = new Map<string, { name: string; written: string; isAnswered: boolean }>()

  function say(frame: Frame<'message.delta'>): void {
    const key = `${frame.stream_id} ${frame.response_id} ${frame.output_index}`
    let item = texts.get(key)
    if (!item) {
      item = { role: 'assistant', content: '' }
      texts.set(key, item)
      history.push({ item, turn })
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
      // What is too long for a frame is cut there, and is then no JSON any more.
      arguments: isJson(frame.arguments_text) ? frame.arguments_text : '{}',
    }
    history.push({ item, turn })
  }

  function answer(toolCallId: string, output: unknown): void {
    const known = calls.get(toolCallId)
    if (!known || known.isAnswered) return
    known.isAnswered = true
    const text = typeof output === 'string' ? output : JSON.stringify(output)
    history.push({ item: { type: 'function_call_output', call_id: toolCallId, output: text }, turn })
  }

  /** A call without an outcome is none that a model may be shown. */
  function answerOpenCalls(): void {
    for (const [id, { isAnswered }] of calls) if (!isAnswered) answer(id, 'This call was not completed.')
  }

  for (const any of frames) {
    const frame = any as Frame
    if (frame.kind === 'message.user') {
      answerOpenCalls()
      turn = frame.message_id
      for (const item of attached(frame.attachments ?? [])) history.push({ item, turn })
      history.push({ item: { role: 'user', content: frame.content }, turn })
    } else if (frame.kind === 'message.delta') say(frame)
    else if (frame.kind === 'tool.arguments.done' && frame.tool_type === 'function') call(frame)
    else if (frame.kind === 'tool.output' && !frame.partial) answer(frame.tool_call_id, frame.output)
    else if (frame.kind === 'final' && frame.final.status === 'cancelled') {
      answerOpenCalls()
      history.push({ item: { role: 'user', content: '[The person stopped this answer.]' }, turn })
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
