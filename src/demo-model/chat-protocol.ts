import { newItemId } from './response-events.ts'
import { type InputItem, pieces, SCRIPTED_FAILURE, type ScriptedCall, type Step, tokensOf } from './script.ts'

/** `/v1/chat/completions`: the request as items, and the answer as chunks. */

export interface ChatBody {
  model?: string
  messages?: ChatMessage[]
  tools?: unknown[]
  stream?: boolean
  stream_options?: { include_usage?: boolean }
}

interface ChatMessage {
  role?: string
  content?: unknown
  tool_calls?: { id?: string; function?: { name?: string; arguments?: string } }[]
  tool_call_id?: string
}

export function itemsOfChat({ messages = [] }: ChatBody): InputItem[] {
  return messages.flatMap((message): InputItem[] => {
    if (message.role === 'system' || message.role === 'developer') return []
    if (message.role === 'tool') return [{ type: 'function_call_output', output: message.content }]
    const said = message.content ? [{ role: message.role ?? 'user', content: message.content }] : []
    const calls = (message.tool_calls ?? []).map((call) => ({
      type: 'function_call',
      name: call.function?.name ?? '',
    }))
    return [...said, ...calls]
  })
}

const ARGUMENT_PIECE = 12

/** Yields the chunks of one answer. */
export function* chatChunks(
  body: ChatBody,
  step: Step,
  usage: { input: number; cached: number },
): Generator<object> {
  const base = {
    id: newItemId('chatcmpl'),
    object: 'chat.completion.chunk',
    created: Math.floor(Date.now() / 1000),
    model: body.model,
  }
  let written = ''
  const chunk = (delta: Record<string, unknown>, finish_reason: string | null = null) => {
    written += JSON.stringify(delta)
    return { ...base, choices: [{ index: 0, delta, finish_reason }] }
  }
  yield chunk({ role: 'assistant', content: '' })
  if (step.type === 'fail') {
    yield { error: { message: SCRIPTED_FAILURE, type: 'server_error', code: 'server_error' } }
    return
  }
  if (step.type === 'hang' || step.type === 'break') {
    for (const delta of pieces(['This', 'answer', 'stops', 'here'])) yield chunk({ content: delta })
    return
  }
  for (const delta of pieces(step.reasoning)) yield chunk({ reasoning_content: delta })
  if (step.type === 'say') for (const delta of pieces(step.words)) yield chunk({ content: delta })
  else yield* callChunks(step.calls, chunk)
  yield chunk({}, step.type === 'say' ? 'stop' : 'tool_calls')
  if (!body.stream_options?.include_usage) return
  const completion_tokens = tokensOf(written)
  yield {
    ...base,
    choices: [],
    usage: {
      prompt_tokens: usage.input,
      completion_tokens,
      total_tokens: usage.input + completion_tokens,
      prompt_tokens_details: { cached_tokens: usage.cached },
    },
  }
}

function* callChunks(
  calls: readonly ScriptedCall[],
  chunk: (delta: Record<string, unknown>) => object,
): Generator<object> {
  for (const [index, { name, arguments: text }] of calls.entries()) {
    const id = newItemId('call')
    yield chunk({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] })
    for (let at = 0; at < text.length; at += ARGUMENT_PIECE) {
      const piece = text.slice(at, at + ARGUMENT_PIECE)
      yield chunk({ tool_calls: [{ index, function: { arguments: piece } }] })
    }
  }
}
