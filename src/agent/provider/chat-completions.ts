import type {
  ChatCompletionChunk,
  ChatCompletionCreateParamsStreaming,
  ChatCompletionMessageParam,
} from 'openai/resources/chat/completions'
import type { ResponseStreamEvent } from 'openai/resources/responses/responses'
import type { ModelItem } from '../../core/request-plan.ts'
import { type AnswerEvents, createAnswerEvents } from './answer-events.ts'
import { dialogueOf, type Said, saidIn } from './dialogue.ts'
import { openOpenAi } from './open-openai.ts'
import type { ModelRequest, Protocol } from './protocol.ts'

/** Chat Completions, as Ollama, vLLM, llama.cpp, LM Studio, OpenRouter, DeepSeek, Groq and Gemini serve it. */
export const chatCompletions: Protocol = {
  name: 'chat-completions',
  path: '/chat/completions',
  hasChains: false,
  sendable: (item) => (reasoningOf(item) !== null || saidIn(item).some(isOurs) ? item : null),
  bodyOf,
  async open(server) {
    const client = await openOpenAi(server)
    return {
      async stream(body, request) {
        const chunks = await client
          .withOptions({ fetch: request })
          .chat.completions.create(body as ChatCompletionCreateParamsStreaming)
        return eventsOf(chunks)
      },
    }
  },
}

/** DeepSeek requires the reasoning before a tool call to be sent back, in the field it came in. */
const SENT_BACK = 'reasoning_content'

function isOurs(said: Said): boolean {
  return said.type !== 'native'
}

function reasoningOf(item: ModelItem): string | null {
  const { native } = item as { native?: { protocol: string; value: unknown } }
  if (native?.protocol !== chatCompletions.name) return null
  const { [SENT_BACK]: text } = native.value as { [SENT_BACK]?: unknown }
  return typeof text === 'string' ? text : null
}

function bodyOf(request: ModelRequest): ChatCompletionCreateParamsStreaming {
  const { model, instructions, temperature, input, tools = [] } = request
  return {
    model,
    messages: [
      ...(instructions ? [{ role: 'system' as const, content: instructions }] : []),
      ...messagesOf(dialogueOf(input), /gemini/i.test(model)),
    ],
    ...(tools.length === 0
      ? {}
      : {
          tools: tools.map(({ name, description, parameters }) => ({
            type: 'function' as const,
            function: { name, description: description ?? '', parameters: parameters ?? {} },
          })),
        }),
    ...(temperature === undefined ? {} : { temperature }),
    stream: true,
    stream_options: { include_usage: true },
  }
}

type AssistantMessage = Extract<ChatCompletionMessageParam, { role: 'assistant' }> & {
  [SENT_BACK]?: string
}
type UserPart = { type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } }

/** Each text of a person is a message of its own, so that the prefix of a later request is the same. */
function messagesOf(said: readonly Said[], isGemini: boolean): ChatCompletionMessageParam[] {
  const messages: ChatCompletionMessageParam[] = []
  let reasoning: string | null = null
  let images: UserPart[] = []

  function assistant(): AssistantMessage {
    const last = messages.at(-1)
    if (last?.role === 'assistant') return last
    const added: AssistantMessage = { role: 'assistant', content: null }
    messages.push(added)
    return added
  }

  for (const one of said) {
    switch (one.type) {
      case 'text':
        if (one.role === 'assistant') {
          const message = assistant()
          message.content = message.content ? `${asText(message.content)}\n${one.text}` : one.text
        } else if (images.length > 0) {
          messages.push({ role: 'user', content: [...images, { type: 'text', text: one.text }] })
          images = []
        } else messages.push({ role: 'user', content: one.text })
        break
      case 'image':
        images.push({ type: 'image_url', image_url: { url: `data:${one.mediaType};base64,${one.data}` } })
        break
      case 'call': {
        const message = assistant()
        const call = {
          id: one.id,
          type: 'function' as const,
          function: { name: one.name, arguments: one.arguments },
          // Other servers may refuse a field that they don't know.
          ...(isGemini && one.extra !== undefined ? { extra_content: one.extra } : {}),
        }
        message.tool_calls = [...(message.tool_calls ?? []), call]
        if (reasoning !== null) message[SENT_BACK] = reasoning
        reasoning = null
        break
      }
      case 'result':
        messages.push({ role: 'tool', tool_call_id: one.id, content: one.text })
        break
      case 'native':
        reasoning = reasoningOf(one.item)
        break
    }
  }
  if (images.length > 0) messages.push({ role: 'user', content: images })
  return messages
}

function asText(content: unknown): string {
  return typeof content === 'string' ? content : ''
}

/** Fields that servers add to the API's own. */
type Delta = ChatCompletionChunk.Choice.Delta & { reasoning_content?: unknown; reasoning?: unknown }

/** The state of one stream. */
interface Stream {
  answer: AnswerEvents
  /** The item of each call, by its index. */
  calls: Map<number, OpenCall>
  finish: FinishReason | null
  usage: ChatCompletionChunk['usage']
}

interface OpenCall {
  key: string
  id: string
  name: string
}

type FinishReason = NonNullable<ChatCompletionChunk.Choice['finish_reason']>
type Handler<K extends keyof Delta> = (stream: Stream, value: NonNullable<Delta[K]>) => void

/** Every field of a delta that the SDK knows, and those of other servers: a new one is a compile error. */
const handlers: { [K in keyof Required<Delta>]: Handler<K> | null } = {
  reasoning_content: ({ answer }, text) => answer.think(text, SENT_BACK),
  reasoning: ({ answer }, text) => answer.think(text),
  content: ({ answer }, text) => answer.say(text),
  refusal: ({ answer }, text) => answer.refuse(text),
  tool_calls: (stream, calls) => {
    if (!Array.isArray(calls)) return
    for (const call of calls) addToCall(stream, call)
  },
  // The form before `tool_calls`.
  function_call: (stream, call) => addToCall(stream, { index: 0, function: call }),
  role: null,
  // Audio is never requested.
  audio: null,
}

/** How an answer ended; null if it is complete. */
const incomplete: Record<FinishReason, string | null> = {
  stop: null,
  tool_calls: null,
  function_call: null,
  length: 'max_output_tokens',
  content_filter: 'content_filter',
}

async function* eventsOf(chunks: AsyncIterable<ChatCompletionChunk>): AsyncGenerator<ResponseStreamEvent> {
  const answer = createAnswerEvents()
  const stream: Stream = { answer, calls: new Map(), finish: null, usage: null }
  for await (const chunk of chunks) {
    answer.begin(chunk.id)
    if (chunk.usage) stream.usage = chunk.usage
    const choice = chunk.choices?.find(({ index }) => index === 0 || index === undefined)
    if (choice?.delta) take(stream, choice.delta)
    if (choice?.finish_reason) stream.finish = choice.finish_reason
    yield* answer.take()
  }
  // A stream that ends without a reason was cut off.
  if (stream.finish === null) return
  const reason = Object.hasOwn(incomplete, stream.finish) ? incomplete[stream.finish] : null
  answer.end(reason, usageOf(stream.usage))
  yield* answer.take()
}

function take(stream: Stream, delta: Delta): void {
  for (const [field, value] of Object.entries(delta)) {
    // Fields that this version does not know are ignored (L10).
    if (value === null || value === undefined || !Object.hasOwn(handlers, field)) continue
    const handler = handlers[field as keyof Delta] as ((stream: Stream, value: unknown) => void) | null
    handler?.(stream, value)
  }
}

/** A piece of a call. Gemini adds the signature of its thoughts, which it expects back. */
interface CallPiece {
  index?: number
  id?: string
  function?: { name?: string; arguments?: string }
  extra_content?: unknown
}

/**
 * Most servers stream a call in pieces under its index. Some send calls whole, all under index 0 or under none; a piece
 * without index and id continues the last call.
 */
function addToCall({ answer, calls }: Stream, piece: CallPiece): void {
  const { name, arguments: written } = piece.function ?? {}
  const known = piece.index === undefined ? [...calls.values()].at(-1) : calls.get(piece.index)
  const isOther = piece.id !== undefined && piece.id !== '' && piece.id !== known?.id
  if (known && !isOther) {
    answer.addArguments(known.key, written)
    answer.addExtra(known.key, piece.extra_content)
    return
  }
  const index = known || piece.index === undefined ? nextIndex(calls) : piece.index
  const call = { key: `call ${index}`, id: piece.id ?? '', name: name ?? '' }
  calls.set(index, call)
  // Later pieces of this call name the index it was announced with.
  if (piece.index !== undefined) calls.set(piece.index, call)
  answer.call(call.key, { id: call.id, name: call.name })
  answer.addArguments(call.key, written)
  answer.addExtra(call.key, piece.extra_content)
}

function nextIndex(calls: ReadonlyMap<number, unknown>): number {
  return Math.max(-1, ...calls.keys()) + 1
}

function usageOf(usage: Stream['usage']) {
  if (!usage) return null
  const others = usage as unknown as Record<string, unknown>
  const cached = usage.prompt_tokens_details?.cached_tokens ?? others.prompt_cache_hit_tokens
  return {
    input_tokens: usage.prompt_tokens,
    output_tokens: usage.completion_tokens,
    total_tokens: usage.total_tokens,
    cached_tokens: cached,
    reasoning_tokens: usage.completion_tokens_details?.reasoning_tokens,
    cost: others.cost,
  }
}
