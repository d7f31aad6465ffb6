import type {
  ContentBlock,
  ContentBlockParam,
  MessageCreateParamsStreaming,
  RawContentBlockDelta,
  RawMessageStreamEvent,
  StopReason,
} from '@anthropic-ai/sdk/resources/messages/messages'
import type { ResponseStreamEvent } from 'openai/resources/responses/responses'
import { type AnswerEvents, type AnswerUsage, createAnswerEvents, type Native } from './answer-events.ts'
import { dialogueOf, type Said, saidIn } from './dialogue.ts'
import { tooLarge } from './failures.ts'
import type { ModelRequest, Protocol } from './protocol.ts'

/** Anthropic's Messages API. */
export const anthropic: Protocol = {
  name: 'anthropic',
  path: '/v1/messages',
  hasChains: false,
  sendable: (item) => (saidIn(item).some(isSendable) ? item : null),
  bodyOf,
  async open({ baseUrl, apiKey }) {
    const { default: Client } = await import('@anthropic-ai/sdk')
    const client = new Client({
      // Only the configured key is used, never one that the SDK finds by itself.
      apiKey: apiKey ?? 'none',
      authToken: null,
      // The SDK adds /v1 itself.
      ...(baseUrl === null ? {} : { baseURL: baseUrl.replace(/\/v1\/?$/, '') }),
      // We retry ourselves, where people can see it.
      maxRetries: 0,
      // The bounded fetch has its own timeouts.
      timeout: 2 ** 31 - 1,
      logLevel: 'off',
    })
    return {
      async stream(body, request) {
        const events = await client
          .withOptions({ fetch: request })
          .messages.create(body as MessageCreateParamsStreaming)
        return eventsOf(events)
      },
    }
  },
}

/** The API requires a limit. Models of the third generation accept no larger one. */
const MAX_TOKENS = 32_000
const MAX_TOKENS_BEFORE_4 = 8192

function maxTokensOf(model: string): number {
  return /claude-(3|2|instant)/.test(model) ? MAX_TOKENS_BEFORE_4 : MAX_TOKENS
}

const CACHED = { cache_control: { type: 'ephemeral' as const } }

function isSendable(said: Said): boolean {
  return said.type !== 'native' || said.protocol === anthropic.name
}

function bodyOf(request: ModelRequest): MessageCreateParamsStreaming {
  const { model, instructions, temperature, input, tools = [] } = request
  return {
    model,
    max_tokens: maxTokensOf(model),
    // A mark here caches the tools as well: they come before the instructions.
    ...(instructions ? { system: [{ type: 'text' as const, text: instructions, ...CACHED }] } : {}),
    ...(tools.length === 0
      ? {}
      : {
          tools: tools.map(({ name, description, parameters }) => ({
            name,
            description: description ?? '',
            input_schema: { ...parameters, type: 'object' as const },
          })),
        }),
    messages: withCacheMarks(messagesOf(dialogueOf(input))),
    ...(temperature === undefined ? {} : { temperature: Math.min(temperature, 1) }),
    stream: true,
  }
}

interface Message {
  role: 'user' | 'assistant'
  content: ContentBlockParam[]
}

/** Consecutive blocks of one side form one message; a conversation must begin with the person's side. */
function messagesOf(said: readonly Said[]): Message[] {
  const messages: Message[] = []
  for (const one of said) {
    const block = blockOf(one)
    if (!block) continue
    const role = isAnswer(one) ? 'assistant' : 'user'
    const last = messages.at(-1)
    if (last?.role === role) last.content.push(block)
    else messages.push({ role, content: [block] })
  }
  if (messages[0]?.role === 'assistant') {
    messages.unshift({ role: 'user', content: [{ type: 'text', text: '[The conversation continues.]' }] })
  }
  return messages.map(resultsFirst)
}

function isAnswer(said: Said): boolean {
  return said.type === 'call' || said.type === 'native' || (said.type === 'text' && said.role === 'assistant')
}

/** The API requires the results of calls at the start of the message after them. */
function resultsFirst({ role, content }: Message): Message {
  if (role === 'assistant') return { role, content }
  const isResult = (block: ContentBlockParam) => block.type === 'tool_result'
  return { role, content: [...content.filter(isResult), ...content.filter((block) => !isResult(block))] }
}

function blockOf(said: Said): ContentBlockParam | null {
  switch (said.type) {
    case 'text':
      return said.text.trim() === '' ? null : { type: 'text', text: said.text }
    case 'image':
      return {
        type: 'image',
        source: { type: 'base64', media_type: said.mediaType as 'image/png', data: said.data },
      }
    case 'call':
      return {
        type: 'tool_use',
        id: plainId(said.id),
        name: said.name,
        input: JSON.parse(said.arguments) as object,
      }
    case 'result':
      return { type: 'tool_result', tool_use_id: plainId(said.id), content: said.text }
    case 'native':
      return said.protocol === anthropic.name ? (said.value as ContentBlockParam) : null
  }
}

/** The API accepts only these characters; ids of other servers may have more. */
function plainId(id: string): string {
  return id.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, 128)
}

/**
 * Marks the end of the request, and the end of the previous one within the same run: the API looks for a cached prefix only
 * a few blocks before a mark. With the one of the instructions, that is three of the four that it allows.
 */
function withCacheMarks(messages: readonly Message[]): Message[] {
  const asked = messages.flatMap(({ role }, index) => (role === 'user' ? index : []))
  const marked = new Set(asked.slice(-2))
  return messages.map((message, index) => {
    const last = message.content.at(-1)
    if (!marked.has(index) || !last) return message
    return { ...message, content: [...message.content.slice(0, -1), { ...last, ...CACHED }] }
  })
}

/** Limits for what no frame shows, which the frame mapper's limits therefore don't cover. */
const MAX_BLOCKS = 2000
const MAX_UNSEEN = 1024 * 1024

/** The state of one stream. */
interface Stream {
  answer: AnswerEvents
  /** The blocks that are open, by index, as the API would expect them back. */
  blocks: Map<number, OpenBlock>
  stop: StopReason | null
  usage: AnswerUsage & { cache_read?: number; cache_creation?: number }
}

interface OpenBlock {
  block: ContentBlock
  /** The input of a server's own tool, which streams as JSON. */
  json: string
}

type Event<T extends RawMessageStreamEvent['type']> = Extract<RawMessageStreamEvent, { type: T }>

/** Every event that the SDK knows: a new one is a compile error. */
const handlers: { [T in RawMessageStreamEvent['type']]: (stream: Stream, event: Event<T>) => void } = {
  message_start: (stream, { message }) => {
    stream.answer.begin(message.id)
    // Some servers send what they already have with the start.
    for (const [index, block] of (message.content ?? []).entries()) {
      handlers.content_block_start(stream, { type: 'content_block_start', index, content_block: block })
      handlers.content_block_stop(stream, { type: 'content_block_stop', index })
    }
    noteUsage(stream, message.usage as unknown as Record<string, unknown>)
  },
  content_block_start: (stream, { index, content_block }) => {
    if (stream.blocks.size >= MAX_BLOCKS) throw tooLarge()
    stream.blocks.set(index, { block: { ...content_block }, json: '' })
    const { type } = content_block
    const begin = Object.hasOwn(begins, type) ? begins[type] : undefined
    ;(begin as ((s: Stream, b: ContentBlock, i: number) => void) | undefined)?.(stream, content_block, index)
  },
  content_block_delta: (stream, { index, delta }) => {
    const open = stream.blocks.get(index)
    const handler = Object.hasOwn(deltas, delta.type) ? deltas[delta.type] : null
    if (open && handler) (handler as DeltaHandler)(stream, open, delta, index)
  },
  content_block_stop: (stream, { index }) => {
    const open = stream.blocks.get(index)
    stream.blocks.delete(index)
    if (open) endBlock(stream, open, index)
  },
  message_delta: (stream, { delta, usage }) => {
    stream.stop = delta.stop_reason ?? stream.stop
    noteUsage(stream, usage as unknown as Record<string, unknown>)
  },
  message_stop: (stream) => {
    if (stream.stop === null) return
    const known = Object.hasOwn(stops, stream.stop) ? stops[stream.stop] : null
    if (stream.stop === 'refusal') stream.answer.refuse('The model declined to answer.')
    stream.answer.end(known, usageOf(stream.usage))
  },
}

/** Why an answer is incomplete; null if it is complete. */
const stops: Record<StopReason, string | null> = {
  end_turn: null,
  tool_use: null,
  stop_sequence: null,
  refusal: null,
  // The server's own tools take long: it expects its answer back, and continues.
  pause_turn: 'pause_turn',
  max_tokens: 'max_output_tokens',
  model_context_window_exceeded: 'context_window_exceeded',
}

/** What the start of a block shows. Types that this version does not know are shown when they end (L10). */
const begins: {
  [T in ContentBlock['type']]?: (
    stream: Stream,
    block: Extract<ContentBlock, { type: T }>,
    index: number,
  ) => void
} = {
  text: ({ answer }, { text }) => answer.say(text),
  thinking: ({ answer }, { thinking }) => answer.think(thinking),
  tool_use: ({ answer }, { id, name }, index) => answer.call(`block ${index}`, { id, name }),
}

type Delta<T extends RawContentBlockDelta['type']> = Extract<RawContentBlockDelta, { type: T }>
type DeltaHandler = (stream: Stream, open: OpenBlock, delta: RawContentBlockDelta, index: number) => void

/** Every delta that the SDK knows: a new one is a compile error. */
const deltas: {
  [T in RawContentBlockDelta['type']]: (
    stream: Stream,
    open: OpenBlock,
    delta: Delta<T>,
    index: number,
  ) => void
} = {
  text_delta: ({ answer }, { block }, { text }) => {
    if (block.type === 'text') block.text += text
    answer.say(text)
  },
  citations_delta: ({ answer }, _open, { citation }) => answer.cite(citation),
  thinking_delta: ({ answer }, { block }, { thinking }) => {
    if (block.type === 'thinking') block.thinking += thinking
    answer.think(thinking)
  },
  signature_delta: (_stream, { block }, { signature }) => {
    if (block.type !== 'thinking') return
    block.signature = (block.signature ?? '') + signature
    if (block.signature.length > MAX_UNSEEN) throw tooLarge()
  },
  input_json_delta: ({ answer }, open, { partial_json }, index) => {
    open.json += partial_json
    if (open.json.length > MAX_UNSEEN) throw tooLarge()
    if (open.block.type === 'tool_use') answer.addArguments(`block ${index}`, partial_json)
  },
}

function endBlock({ answer }: Stream, { block, json }: OpenBlock, index: number): void {
  const native: Native = { protocol: anthropic.name, value: block }
  switch (block.type) {
    // Text blocks that follow each other are one text: citations split it.
    case 'text':
      return
    case 'tool_use':
      // A call without deltas has its whole input in its start.
      if (json === '' && isFilled(block.input))
        answer.addArguments(`block ${index}`, JSON.stringify(block.input))
      return
    case 'thinking':
      return block.thinking === ''
        ? answer.whole({ type: 'reasoning', summary: [], native })
        : answer.endItem(native)
    case 'redacted_thinking':
      return answer.whole({ type: 'reasoning', summary: [], native })
    case 'server_tool_use': {
      const input = json === '' ? block.input : (parsed(json) ?? block.input)
      const value = { ...block, input }
      const action = { type: 'search', ...(input as object) }
      return answer.whole({
        type: `${block.name}_call`,
        id: block.id,
        name: block.name,
        ...(block.name === 'web_search' ? { action } : { input }),
        status: 'completed',
        native: { ...native, value },
      })
    }
    default:
      return answer.whole(resultItem(block, native))
  }
}

/** The result of a tool that the server ran, or a block of a type that this version does not know. */
function resultItem(block: Exclude<ContentBlock, { type: 'text' | 'thinking' }>, native: Native) {
  const { tool_use_id, content } = block as { tool_use_id?: unknown; content?: unknown }
  return typeof tool_use_id === 'string'
    ? { type: `${block.type}_call_output`, call_id: tool_use_id, output: content, native }
    : { ...(block as object), type: block.type as string, native }
}

async function* eventsOf(events: AsyncIterable<RawMessageStreamEvent>): AsyncGenerator<ResponseStreamEvent> {
  const answer = createAnswerEvents()
  const stream: Stream = {
    answer,
    blocks: new Map(),
    stop: null,
    usage: { input_tokens: 0, output_tokens: 0 },
  }
  for await (const event of events) {
    // Events that this version does not know are ignored (L10).
    if (!Object.hasOwn(handlers, event.type)) continue
    ;(handlers[event.type] as (stream: Stream, event: RawMessageStreamEvent) => void)(stream, event)
    yield* answer.take()
  }
}

/** Later numbers replace earlier ones: the API sends running totals. */
function noteUsage(stream: Stream, usage: Record<string, unknown> | null | undefined): void {
  const { input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens } = usage ?? {}
  const number = (value: unknown, before: unknown) => (typeof value === 'number' ? value : before) as number
  const { usage: known } = stream
  known.input_tokens = number(input_tokens, known.input_tokens)
  known.output_tokens = number(output_tokens, known.output_tokens)
  known.cache_read = number(cache_read_input_tokens, known.cache_read ?? 0)
  known.cache_creation = number(cache_creation_input_tokens, known.cache_creation ?? 0)
}

/** The API counts input that its cache reads or writes apart from the rest. */
function usageOf({
  input_tokens,
  output_tokens,
  cache_read = 0,
  cache_creation = 0,
}: Stream['usage']): AnswerUsage {
  return {
    input_tokens: (input_tokens as number) + cache_read + cache_creation,
    output_tokens,
    cached_tokens: cache_read,
  }
}

function isFilled(input: unknown): boolean {
  return typeof input === 'object' && input !== null && Object.keys(input).length > 0
}

function parsed(json: string): object | null {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}
