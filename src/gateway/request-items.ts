import type { ProtocolName } from '../agent/provider/protocol.ts'
import { parseBoundedJson } from '../core/bounded-json.ts'
import { cutText } from '../core/limits.ts'
import type { ContextPart, PartOrigin } from '../core/responses.ts'

/** An entry of the history that an agent sends with a request, whatever the protocol. */
export type RequestItem =
  | { type: 'user'; text: string }
  | { type: 'assistant'; text: string }
  | { type: 'call'; callId: string; name: string; length: number }
  | { type: 'output'; callId: string; text: string }
  | { type: 'other'; length: number }

export interface ReadRequest {
  model: string
  /** Characters of the instructions. */
  instructions: number
  tools: { count: number; length: number }
  items: RequestItem[]
}

const unreadable: ReadRequest = { model: '', instructions: 0, tools: { count: 0, length: 0 }, items: [] }
/** Beyond this, a history is shown as one part and its last entries. */
const MAX_PARTS = 400
/** A rough rule for English text and code; the provider's own count is in the usage. */
const CHARACTERS_PER_TOKEN = 4

/** Reading a larger one would hold up everything else for too long; it is recorded all the same. */
const MAX_READ = 8 * 1024 * 1024

/** Reads a request as far as it has the form of its protocol; a request is hostile input like any other. */
export function readRequest(protocol: ProtocolName | null, text: string): ReadRequest {
  if (text.length > MAX_READ) return unreadable
  let body: unknown
  try {
    body = parseBoundedJson(text)
  } catch {
    return unreadable
  }
  if (!isObject(body)) return unreadable
  const { model, tools, instructions, system } = body
  const list = Array.isArray(tools) ? tools : []
  const history = protocol === 'responses' ? body.input : body.messages
  return {
    model: typeof model === 'string' ? cutText(model, 200) : '',
    instructions: instructions === undefined && system === undefined ? 0 : lengthOf(instructions ?? system),
    tools: { count: list.length, length: list.length === 0 ? 0 : lengthOf(list) },
    items: itemsIn(history),
  }
}

function itemsIn(history: unknown): RequestItem[] {
  if (typeof history === 'string') return [{ type: 'user', text: history }]
  if (!Array.isArray(history)) return []
  return history.flatMap((item): RequestItem[] => (isObject(item) ? itemOf(item) : []))
}

function itemOf(item: Record<string, unknown>): RequestItem[] {
  const { type, role, content } = item
  const callId = text(item.call_id ?? item.tool_call_id)
  if (type === 'function_call' || type === 'custom_tool_call' || type === 'local_shell_call') {
    return [{ type: 'call', callId, name: text(item.name) || type, length: lengthOf(item) }]
  }
  if (typeof type === 'string' && type.endsWith('_output'))
    return [{ type: 'output', callId, text: plain(item.output) }]
  if (role === 'tool') return [{ type: 'output', callId, text: plain(content) }]
  if (role !== 'user' && role !== 'assistant') return [{ type: 'other', length: lengthOf(item) }]
  const calls = Array.isArray(item.tool_calls) ? item.tool_calls.filter(isObject) : []
  return [...blocksOf(role, content), ...calls.map(chatCall)]
}

function chatCall(call: Record<string, unknown>): RequestItem {
  const asked = isObject(call.function) ? call.function : {}
  return { type: 'call', callId: text(call.id), name: text(asked.name), length: lengthOf(call) }
}

/** Each block on its own: Anthropic puts outcomes and texts into one message. */
function blocksOf(role: 'user' | 'assistant', content: unknown): RequestItem[] {
  if (typeof content === 'string') return [{ type: role, text: content }]
  if (!Array.isArray(content)) return []
  return content.filter(isObject).map((block): RequestItem => {
    if (block.type === 'tool_use') {
      return { type: 'call', callId: text(block.id), name: text(block.name), length: lengthOf(block) }
    }
    if (block.type === 'tool_result') {
      return { type: 'output', callId: text(block.tool_use_id), text: plain(block.content) }
    }
    return typeof block.text === 'string'
      ? { type: role, text: block.text }
      : { type: 'other', length: lengthOf(block) }
  })
}

/** The parts of a request for its record (C8), with estimated tokens. */
export function partsOf({ instructions, tools, items }: ReadRequest): ContextPart[] {
  const part = (origin: PartOrigin, length: number, why: string): ContextPart => ({
    origin,
    tokens: Math.ceil(length / CHARACTERS_PER_TOKEN),
    sent: true,
    why,
  })
  const older = items.slice(0, Math.max(0, items.length - MAX_PARTS))
  return [
    ...(instructions > 0 ? [part({ type: 'instructions' }, instructions, 'instructions of the agent')] : []),
    ...(tools.count > 0
      ? [part({ type: 'tools', count: tools.count }, tools.length, 'tools of the agent')]
      : []),
    ...(older.length > 0
      ? [part({ type: 'history', parts: older.length }, sum(older), 'older entries, sent by the agent')]
      : []),
    ...items.slice(older.length).map((item) => part(originOf(item), sizeOf(item), 'sent by the agent')),
  ]
}

function originOf(item: RequestItem): PartOrigin {
  if (item.type === 'call') return { type: 'tool_call', tool_call_id: item.callId, name: item.name }
  if (item.type === 'output') return { type: 'tool_output', tool_call_id: item.callId }
  if (item.type === 'other') return { type: 'reasoning' }
  return { type: 'message', role: item.type, message_id: null }
}

function sizeOf(item: RequestItem): number {
  return 'text' in item ? item.text.length : item.length
}

function sum(items: readonly RequestItem[]): number {
  return items.reduce((total, item) => total + sizeOf(item), 0)
}

function lengthOf(value: unknown): number {
  return typeof value === 'string' ? value.length : JSON.stringify(value ?? null).length
}

function text(value: unknown): string {
  return typeof value === 'string' ? cutText(value, 200) : ''
}

/** An outcome as text: providers take a string, or a list of blocks. */
function plain(value: unknown): string {
  if (typeof value === 'string') return value
  if (!Array.isArray(value)) return value === undefined ? '' : JSON.stringify(value)
  return value
    .map((block) => (isObject(block) && typeof block.text === 'string' ? block.text : JSON.stringify(block)))
    .join('\n')
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
