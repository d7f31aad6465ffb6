import { newItemId } from './response-events.ts'
import { type InputItem, pieces, SCRIPTED_FAILURE, type Step, textOf, tokensOf } from './script.ts'

/** `/v1/messages`: the request as items, and the answer as events. */

export interface MessagesBody {
  model?: string
  max_tokens?: number
  system?: unknown
  tools?: unknown[]
  messages?: { role?: string; content?: string | MessageBlock[] }[]
  stream?: boolean
}

interface MessageBlock {
  type?: string
  text?: string
  name?: string
  content?: unknown
  signature?: string
}

export function itemsOfMessages({ messages = [] }: MessagesBody): InputItem[] {
  return messages.flatMap(({ role = 'user', content = [] }) => {
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    return blocks.flatMap((block): InputItem[] => {
      if (block.type === 'text') return [{ role, content: block.text ?? '' }]
      if (block.type === 'image') return [{ type: 'input_image' }]
      if (block.type === 'tool_use') return [{ type: 'function_call', name: block.name ?? '' }]
      if (block.type === 'tool_result')
        return [{ type: 'function_call_output', output: textOf(block.content) }]
      return []
    })
  })
}

/** Why the real API would reject the body; null if it accepts it. */
export function flawOf({ max_tokens, messages = [] }: MessagesBody): string | null {
  if (typeof max_tokens !== 'number') return 'max_tokens: Field required'
  if (messages[0]?.role !== 'user') return 'messages: first message must use the "user" role'
  for (const [index, { role, content }] of messages.entries()) {
    if (!Array.isArray(content)) continue
    const calls = content.filter((block) => block.type === 'tool_use').length
    const next = messages[index + 1]?.content
    const results = Array.isArray(next) ? next.filter((block) => block.type === 'tool_result').length : 0
    if (role === 'assistant' && calls !== results) {
      return `messages.${index}: tool_use ids were found without tool_result blocks immediately after`
    }
    if (content.some((block) => block.type === 'thinking' && block.signature !== SIGNATURE)) {
      return `messages.${index}: Invalid signature in thinking block`
    }
    if (content.some((block) => block.type === 'text' && !block.text)) {
      return `messages.${index}: text content blocks must be non-empty`
    }
  }
  return null
}

/** Thinking must come back with its signature, unchanged. */
const SIGNATURE = 'ZGVtbyBzaWduYXR1cmU='
const ARGUMENT_PIECE = 12

/** Yields the events of one answer. */
export function* messageEvents(
  body: MessagesBody,
  step: Step,
  usage: { input: number; cached: number; created: number },
): Generator<{ type: string } & Record<string, unknown>> {
  const counted = {
    input_tokens: usage.input - usage.cached - usage.created,
    cache_read_input_tokens: usage.cached,
    cache_creation_input_tokens: usage.created,
  }
  const message = {
    id: newItemId('msg'),
    type: 'message',
    role: 'assistant',
    model: body.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { ...counted, output_tokens: 1 },
  }
  yield { type: 'message_start', message }
  yield { type: 'ping' }
  if (step.type === 'fail') {
    yield { type: 'error', error: { type: 'api_error', message: SCRIPTED_FAILURE } }
    return
  }
  let index = -1
  let written = ''
  function* block(content_block: object, deltas: Iterable<object>, isEnded = true) {
    index++
    yield { type: 'content_block_start', index, content_block }
    for (const delta of deltas) {
      written += JSON.stringify(delta)
      yield { type: 'content_block_delta', index, delta }
    }
    if (isEnded) yield { type: 'content_block_stop', index }
  }
  if (step.type === 'hang' || step.type === 'break') {
    yield* block({ type: 'text', text: '' }, textDeltas(['This', 'answer', 'stops', 'here']), false)
    return
  }
  if (step.reasoning.length > 0) {
    yield* block({ type: 'thinking', thinking: '', signature: '' }, thinkingDeltas(step.reasoning))
  }
  if (step.type === 'say') yield* block({ type: 'text', text: '' }, textDeltas(step.words))
  else {
    for (const { name, arguments: text } of step.calls) {
      const call = { type: 'tool_use', id: newItemId('toolu'), name, input: {} }
      yield* block(call, jsonDeltas(text))
    }
  }
  const stop_reason = step.type === 'say' ? 'end_turn' : 'tool_use'
  yield {
    type: 'message_delta',
    delta: { stop_reason, stop_sequence: null },
    usage: { output_tokens: tokensOf(written) },
  }
  yield { type: 'message_stop' }
}

function* textDeltas(words: readonly string[]): Generator<object> {
  for (const text of pieces(words)) yield { type: 'text_delta', text }
}

function* thinkingDeltas(words: readonly string[]): Generator<object> {
  for (const thinking of pieces(words)) yield { type: 'thinking_delta', thinking }
  yield { type: 'signature_delta', signature: SIGNATURE }
}

function* jsonDeltas(text: string): Generator<object> {
  for (let at = 0; at < text.length; at += ARGUMENT_PIECE) {
    yield { type: 'input_json_delta', partial_json: text.slice(at, at + ARGUMENT_PIECE) }
  }
}
