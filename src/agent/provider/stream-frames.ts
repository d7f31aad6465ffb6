import type { ResponseStreamEvent } from 'openai/resources/responses/responses'
import { ModelFailure } from '../../core/agent.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import { failureOf, malformed, shownCode, tooLarge } from './failures.ts'
import { type RawItem, toolTypeOf } from './item-types.ts'
import type { Mapping, ModelResult, OpenItem } from './mapping.ts'
import {
  beginItem,
  endItem,
  itemFields,
  MAX_CALL_CHARACTERS,
  sendChunks,
  shownCitation,
  toolStatus,
} from './stream-items.ts'

export interface FrameMapper {
  take(event: ResponseStreamEvent): void
  /** Call this when the stream has ended. Throws a ModelFailure if it failed or is incomplete. */
  finish(): ModelResult
}

export interface MapperOptions {
  emit(frame: FrameDraft): void
  newResponseId(): string
  /** True if the run already has a call with this id: some servers count from 0 in every response. */
  hasCall(callId: string): boolean
}

/** Turns the provider's events into frames. Items are anchored by `output_index`; their ids are aliases (L6). */
export function createFrameMapper({ emit, newResponseId, hasCall }: MapperOptions): FrameMapper {
  const budget = createBudget()
  const mapping: Mapping = {
    emit(frame) {
      try {
        emit(frame)
      } catch (cause) {
        throw new EmitFailed('a frame could not be written', { cause })
      }
    },
    hasCall,
    responseId: newResponseId(),
    items: new Map(),
    result: {
      output: [],
      calls: [],
      status: 'completed',
      reason: null,
      usage: { input: 0, output: 0, total: 0, cached: 0, reasoning: 0, cost: null },
      providerIds: [],
      payload: null,
    },
    failure: null,
    answered: new Set(),
    isEnded: false,
  }
  let hasBegun = false

  return {
    take(event) {
      budget.spend(event)
      try {
        handle(event)
      } catch (error) {
        // An event that does not match the SDK's types may cause any error.
        throw error instanceof EmitFailed
          ? error.cause
          : error instanceof ModelFailure
            ? error
            : malformed(error)
      }
    },
    finish() {
      if (mapping.failure) throw mapping.failure
      if (!mapping.isEnded) {
        throw new ModelFailure('stream_broken', 'The model stopped in the middle of its answer.', {
          isRetryable: true,
        })
      }
      const { result } = mapping
      return { ...result, calls: result.calls.filter(({ callId }) => !mapping.answered.has(callId)) }
    },
  }

  function handle(event: ResponseStreamEvent): void {
    if (event.type === 'response.created') {
      // Some servers send several responses in one stream.
      if (hasBegun) mapping.responseId = newResponseId()
      hasBegun = true
      mapping.isEnded = false
      mapping.items = new Map()
    }
    // Events that this version does not know are ignored (L10).
    const handler = Object.hasOwn(handlers, event.type) ? handlers[event.type] : PASSED_OVER
    if (handler === PASSED_OVER) return
    assertShape(event)
    ;(handler as (m: Mapping, e: ResponseStreamEvent) => void)(mapping, event)
  }
}

const PASSED_OVER = null

type Event<T extends ResponseStreamEvent['type']> = Extract<ResponseStreamEvent, { type: T }>
type Handler<T extends ResponseStreamEvent['type']> = (mapping: Mapping, event: Event<T>) => void

/** Every event that the SDK knows, mapped or deliberately ignored: a new one is a compile error. */
const handlers: { [T in ResponseStreamEvent['type']]: Handler<T> | typeof PASSED_OVER } = {
  'response.created': (mapping, { response }) => {
    mapping.result.providerIds.push(shownCode(response.id))
  },
  'response.completed': (mapping, { response }) => endResponse(mapping, response),
  'response.incomplete': (mapping, { response }) => {
    mapping.result.status = 'incomplete'
    mapping.result.reason = shownCode(response.incomplete_details?.reason ?? 'incomplete')
    endResponse(mapping, response, 'incomplete')
  },
  'response.failed': (mapping, { response }) => {
    const { code, message } = response.error ?? { code: 'failed', message: 'The model failed.' }
    mapping.failure ??= failureOf(code, message)
  },
  error: (mapping, event) => {
    // Some servers send the fields flat, as in the SDK's types; others nest them one level down.
    const inner = (event as { error?: { code?: string; message?: string } }).error
    mapping.failure ??= failureOf(event.code ?? inner?.code ?? 'error', event.message ?? inner?.message ?? '')
  },
  // These add nothing to the events around them.
  'response.in_progress': PASSED_OVER,
  'response.queued': PASSED_OVER,
  'response.content_part.added': PASSED_OVER,
  'response.content_part.done': PASSED_OVER,
  'response.output_text.done': PASSED_OVER,
  'response.reasoning_summary_text.done': PASSED_OVER,
  'response.reasoning_text.done': PASSED_OVER,
  'response.shell_call_command.done': PASSED_OVER,
  'response.shell_call_output_content.done': PASSED_OVER,
  'response.compaction.compacting': PASSED_OVER,
  'response.mcp_list_tools.in_progress': PASSED_OVER,
  'response.mcp_list_tools.completed': PASSED_OVER,
  'response.mcp_list_tools.failed': PASSED_OVER,
  // Audio is never requested.
  'response.audio.delta': PASSED_OVER,
  'response.audio.done': PASSED_OVER,
  'response.audio.transcript.delta': PASSED_OVER,
  'response.audio.transcript.done': PASSED_OVER,

  'response.output_item.added': (mapping, { output_index, item, sequence_number }) => {
    beginItem(mapping, output_index, item, sequence_number)
  },
  'response.output_item.done': (mapping, { output_index, item, sequence_number }) => {
    endItem(mapping, output_index, item, sequence_number)
  },
  'response.output_text.delta': (mapping, event) => {
    const item = itemAt(mapping, event, 'message')
    item.text.set(event.content_index, (item.text.get(event.content_index) ?? '') + event.delta)
    const { content_index, delta } = event
    mapping.emit({ kind: 'message.delta', ...itemFields(mapping, item, event), content_index, delta })
  },
  'response.output_text.annotation.added': (mapping, event) => {
    if (event.annotation === null) return
    const item = itemAt(mapping, event, 'message')
    item.citations.set(event.content_index, (item.citations.get(event.content_index) ?? 0) + 1)
    const { content_index, annotation } = event
    mapping.emit({
      kind: 'message.citation',
      ...itemFields(mapping, item, event),
      content_index,
      citation: shownCitation(annotation),
    })
  },
  'response.refusal.delta': (mapping, event) => {
    const item = itemAt(mapping, event, 'message')
    const { content_index, delta } = event
    mapping.emit({ kind: 'refusal.delta', ...itemFields(mapping, item, event), content_index, delta })
  },
  'response.refusal.done': (mapping, event) => {
    const item = itemAt(mapping, event, 'message')
    const { content_index, refusal } = event
    item.refusals.add(content_index)
    mapping.emit({
      kind: 'refusal.done',
      ...itemFields(mapping, item, event),
      content_index,
      refusal_text: refusal,
    })
  },

  'response.reasoning_summary_part.added': (mapping, event) => {
    const item = itemAt(mapping, event, 'reasoning')
    const { summary_index, part } = event
    mapping.emit({
      kind: 'reasoning_summary.part.added',
      ...itemFields(mapping, item, event),
      summary_index,
      text: part.text,
    })
  },
  'response.reasoning_summary_text.delta': (mapping, event) => {
    const { summary_index, delta } = event
    const item = itemAt(mapping, event, 'reasoning')
    item.summaries.add(summary_index)
    mapping.emit({
      kind: 'reasoning_summary.delta',
      ...itemFields(mapping, item, event),
      summary_index,
      delta,
    })
  },
  'response.reasoning_summary_part.done': (mapping, event) => {
    const { summary_index, part } = event
    const item = itemAt(mapping, event, 'reasoning')
    item.summaries.add(summary_index)
    mapping.emit({
      kind: 'reasoning_summary.part.done',
      ...itemFields(mapping, item, event),
      summary_index,
      text: part.text,
    })
  },
  // Open models send their full reasoning; it is collapsed like a summary.
  'response.reasoning_text.delta': (mapping, event) => {
    const { content_index, delta } = event
    const item = itemAt(mapping, event, 'reasoning')
    mapping.emit({
      kind: 'reasoning_summary.delta',
      ...itemFields(mapping, item, event),
      summary_index: content_index,
      delta,
    })
  },

  // Shown with the finished item; kept in case the server never finishes it.
  'response.function_call_arguments.done': (mapping, event) => {
    itemAt(mapping, event, 'function_call').written = event.arguments
  },
  'response.custom_tool_call_input.done': (mapping, event) => {
    itemAt(mapping, event, 'custom_tool_call').written = event.input
  },
  'response.mcp_call_arguments.done': (mapping, event) => {
    itemAt(mapping, event, 'mcp_call').written = event.arguments
  },
  'response.function_call_arguments.delta': (mapping, event) => {
    sendArguments(mapping, itemAt(mapping, event, 'function_call'), event, event.delta)
  },
  'response.custom_tool_call_input.delta': (mapping, event) => {
    sendArguments(mapping, itemAt(mapping, event, 'custom_tool_call'), event, event.delta)
  },
  'response.mcp_call_arguments.delta': (mapping, event) => {
    sendArguments(mapping, itemAt(mapping, event, 'mcp_call'), event, event.delta)
  },
  'response.shell_call_command.added': (mapping, event) => {
    const text = (event.command_index > 0 ? '\n' : '') + event.command
    if (text) sendArguments(mapping, itemAt(mapping, event, 'shell_call'), event, text)
  },
  'response.shell_call_command.delta': (mapping, event) => {
    sendArguments(mapping, itemAt(mapping, event, 'shell_call'), event, event.delta)
  },
  'response.shell_call_output_content.delta': (mapping, event) => {
    const item = itemAt(mapping, event, 'shell_call_output')
    const { stdout = '', stderr = '' } = event.delta
    mapping.emit({
      kind: 'tool.output',
      ...itemFields(mapping, item, event),
      tool_call_id: item.callId,
      tool_type: 'shell',
      output: stdout + stderr,
      partial: true,
    })
  },

  'response.code_interpreter_call_code.delta': (mapping, event) => {
    const item = itemAt(mapping, event, 'code_interpreter_call')
    const { delta } = event
    mapping.emit({
      kind: 'tool.code.delta',
      ...itemFields(mapping, item, event),
      tool_call_id: item.callId,
      delta,
    })
  },
  'response.code_interpreter_call_code.done': (mapping, event) => {
    const item = itemAt(mapping, event, 'code_interpreter_call')
    item.hasCode = true
    const { code } = event
    mapping.emit({
      kind: 'tool.code.done',
      ...itemFields(mapping, item, event),
      tool_call_id: item.callId,
      code,
    })
  },
  'response.code_interpreter_call.in_progress': statusOf('code_interpreter_call', 'in_progress'),
  'response.code_interpreter_call.interpreting': statusOf('code_interpreter_call', 'interpreting'),
  'response.code_interpreter_call.completed': statusOf('code_interpreter_call', 'completed'),
  'response.file_search_call.in_progress': statusOf('file_search_call', 'in_progress'),
  'response.file_search_call.searching': statusOf('file_search_call', 'searching'),
  'response.file_search_call.completed': statusOf('file_search_call', 'completed'),
  'response.web_search_call.in_progress': statusOf('web_search_call', 'in_progress'),
  'response.web_search_call.searching': statusOf('web_search_call', 'searching'),
  'response.web_search_call.completed': statusOf('web_search_call', 'completed'),
  'response.image_generation_call.in_progress': statusOf('image_generation_call', 'in_progress'),
  'response.image_generation_call.generating': statusOf('image_generation_call', 'generating'),
  'response.image_generation_call.completed': statusOf('image_generation_call', 'completed'),
  'response.image_generation_call.partial_image': (mapping, event) => {
    const item = itemAt(mapping, event, 'image_generation_call')
    const part = { field: 'partial_image', partIndex: event.partial_image_index }
    toolStatus(mapping, item, 'partial_image', event.sequence_number)
    sendChunks(mapping, item, part, event.partial_image_b64)
  },
  'response.mcp_call.in_progress': statusOf('mcp_call', 'in_progress'),
  'response.mcp_call.completed': statusOf('mcp_call', 'completed'),
  'response.mcp_call.failed': statusOf('mcp_call', 'failed'),
}

function statusOf(itemType: string, status: string) {
  return (
    mapping: Mapping,
    event: { output_index: number; item_id: string; sequence_number: number },
  ): void => {
    toolStatus(mapping, itemAt(mapping, event, itemType), status, event.sequence_number)
  }
}

function sendArguments(
  mapping: Mapping,
  item: OpenItem,
  event: { sequence_number?: number },
  piece: string,
): void {
  item.written += piece
  if (item.written.length > MAX_CALL_CHARACTERS) throw tooLarge()
  const delta = item.arguments.next(piece)
  if (delta === '') return
  mapping.emit({
    kind: 'tool.arguments.delta',
    ...itemFields(mapping, item, event),
    tool_call_id: item.callId,
    tool_type: toolTypeOf(item.type),
    tool_name: item.name,
    delta,
  })
}

/** The item at the event's index; an item that was never announced is announced now. */
function itemAt(
  mapping: Mapping,
  event: { output_index: number; item_id?: string; sequence_number?: number },
  type: string,
): OpenItem {
  const known = mapping.items.get(event.output_index)
  if (known) return known
  const unannounced = { type, ...(event.item_id === undefined ? {} : { id: event.item_id }) }
  return beginItem(mapping, event.output_index, unannounced, event.sequence_number)
}

/** Ends the items that the provider has not ended itself, with the status of the response. */
function endResponse(
  mapping: Mapping,
  response: Event<'response.completed'>['response'],
  status: 'completed' | 'incomplete' = 'completed',
): void {
  for (const [index, item] of mapping.items) {
    if (item.isDone) continue
    const ended = (response.output?.[index] ?? item.raw) as RawItem
    endItem(mapping, index, { ...ended, status }, undefined)
  }
  mapping.isEnded = true
  mapping.result.payload = JSON.stringify(response)
  const { usage } = response
  if (!usage) return
  const total = mapping.result.usage
  const [input, output] = [count(usage.input_tokens), count(usage.output_tokens)]
  total.input += input
  total.output += output
  total.total += count(usage.total_tokens) || input + output
  total.cached += count(usage.input_tokens_details?.cached_tokens)
  total.reasoning += count(usage.output_tokens_details?.reasoning_tokens)
  const { cost } = usage as { cost?: unknown }
  if (typeof cost === 'number' && cost >= 0 && Number.isFinite(cost)) total.cost = (total.cost ?? 0) + cost
}

/** A number of tokens; any other value that a server may send counts as 0. */
function count(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : 0
}

const MAX_EVENTS = 500_000
const MAX_WRITTEN = 8 * 1024 * 1024
const NUMBERS = ['output_index', 'content_index', 'summary_index', 'command_index', 'partial_image_index']

/** Checks the fields that the handlers rely on. */
function assertShape(event: ResponseStreamEvent): void {
  const fields = event as unknown as Record<string, unknown>
  for (const name of NUMBERS) {
    const value = fields[name]
    if (value !== undefined && !(Number.isSafeInteger(value) && (value as number) >= 0)) throw malformed(null)
  }
  if (fields.item_id !== undefined && typeof fields.item_id !== 'string') throw malformed(null)
}

/** Limits the total size of one response. */
function createBudget() {
  let events = 0
  let written = 0
  return {
    spend(event: ResponseStreamEvent): void {
      if (typeof event !== 'object' || event === null || typeof event.type !== 'string') throw malformed(null)
      const fields = event as unknown as Record<string, unknown>
      if (typeof fields.delta === 'string') written += fields.delta.length
      if (++events > MAX_EVENTS || written > MAX_WRITTEN) throw tooLarge()
    },
  }
}

/** A frame could not be written, which is not the provider's fault. */
class EmitFailed extends Error {}
