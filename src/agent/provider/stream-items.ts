import type { ResponseOutputItem } from 'openai/resources/responses/responses'
import {
  cutMiddle,
  cutText,
  limitStrings,
  MAX_ARGUMENT_STRING,
  MAX_ARGUMENTS_TEXT,
  MAX_OUTPUT_STRING,
  truncatedNotice,
} from '../../core/limits.ts'
import { createTextRedactor, redact } from '../../core/redact.ts'
import type { FrameDraft, Notice } from '../../protocol/frames.ts'
import { tooLarge } from './failures.ts'
import {
  callNamedBy,
  inputOf,
  isCallOf,
  isRunByUs,
  outputOf,
  type RawItem,
  roleOf,
  toolNameOf,
  toolTypeOf,
} from './item-types.ts'
import type { ArgumentsText, Mapping, OpenItem } from './mapping.ts'

/** Limit for the arguments of one call; a longer call can't be intended. */
export const MAX_CALL_CHARACTERS = 1024 * 1024
const MAX_ITEMS = 2000
const MAX_CITATIONS = 1000
const MAX_NAME = 200
const MAX_DETAIL = 2000
const MAX_LISTED = 100

const CHUNK_CHARACTERS = 131_072
const MAX_RESULTS = 10
const MAX_RESULT_TEXT = 2000
/** Types whose start is reported by their own events or by ours. */
const ANNOUNCED = new Set([
  'function_call',
  'custom_tool_call',
  'mcp_call',
  'mcp_approval_request',
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'image_generation_call',
])

export function beginItem(
  mapping: Mapping,
  outputIndex: number,
  announced: ResponseOutputItem | RawItem,
  sequence: number | undefined,
): OpenItem {
  const raw = named(announced as RawItem)
  if (mapping.items.size >= MAX_ITEMS) throw tooLarge()
  const itemId = raw.id ?? `${mapping.responseId}_${outputIndex}`
  const item: OpenItem = {
    outputIndex,
    itemId,
    type: raw.type,
    callId:
      roleOf(raw) === 'outcome'
        ? callOfOutcome(mapping, raw, itemId)
        : usableCallId(mapping, text(raw.call_id) || itemId, outputIndex),
    name: toolNameOf(raw),
    raw,
    arguments: createArgumentsText(raw.type),
    written: '',
    hasCode: false,
    text: new Map(),
    citations: new Map(),
    refusals: new Set(),
    summaries: new Set(),
    isDone: false,
  }
  mapping.items.set(outputIndex, item)
  // The outcome of a call is part of the call's own card.
  if (roleOf(raw) === 'outcome') return item
  mapping.emit({ kind: 'output_item.added', ...itemFrame(mapping, item, raw, sequence) })
  if (roleOf(raw) !== 'content' && !ANNOUNCED.has(raw.type)) {
    toolStatus(mapping, item, 'in_progress', sequence)
  }
  return item
}

/** Bounds the fields that go into frames unchanged: a hostile server may send anything. */
function named(raw: RawItem): RawItem {
  const { id, role, status } = raw as Record<string, unknown>
  const type = cutText(text(raw.type), MAX_NAME)
  const known: RawItem = { ...raw, type }
  if (typeof id !== 'string' || id.length > MAX_NAME) delete known.id
  if (role !== undefined) known.role = cutText(text(role), MAX_NAME)
  if (status !== undefined) known.status = cutText(text(status), MAX_NAME)
  return known
}

export function shownCitation(citation: object): { type: string } & Record<string, unknown> {
  const shown = limited(citation) as Record<string, unknown>
  return { ...shown, type: text(shown.type) }
}

/** A copy with strings and lists of bounded length. */
function limited(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, MAX_LISTED).map(limited)
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(
      Object.entries(value)
        .slice(0, MAX_LISTED)
        .map(([key, one]) => [cutText(key, MAX_NAME), limited(one)]),
    )
  }
  return typeof value === 'string' ? cutText(value, MAX_DETAIL) : value
}

export function endItem(
  mapping: Mapping,
  outputIndex: number,
  ended: ResponseOutputItem | RawItem,
  sequence: number | undefined,
): void {
  const item = mapping.items.get(outputIndex) ?? beginItem(mapping, outputIndex, ended, sequence)
  if (item.isDone) return
  const raw = finished(item, named(ended as RawItem))
  item.isDone = true
  item.raw = raw
  if (toolNameOf(raw)) item.name = toolNameOf(raw)
  const isOurs = isRunByUs(raw)
  const isHalf = raw.status === 'incomplete' && isOurs
  // An incomplete call is neither run nor sent back to the model.
  if (!isHalf) mapping.result.output.push(withoutReserved(raw) as unknown as ResponseOutputItem)
  if (roleOf(raw) === 'outcome') {
    mapping.answered.add(item.callId)
    return endCard(mapping, item, raw, sequence)
  }
  endContent(mapping, item, raw, sequence)
  if (isOurs && !isHalf) noteCall(mapping, item, raw)
  mapping.emit({ kind: 'output_item.done', ...itemFrame(mapping, item, raw, sequence) })
}

/** When LangGraph loads a state, it treats objects with this key as its own, and fails if they are not. */
const RESERVED = 'lc'

function withoutReserved(raw: RawItem): RawItem {
  const text = JSON.stringify(raw)
  if (!text.includes(`"${RESERVED}"`)) return raw
  return JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, RESERVED)) return value
    const { [RESERVED]: kept, ...rest } = value as Record<string, unknown>
    return { ...rest, [`${RESERVED}_`]: kept }
  }) as RawItem
}

/** The finished item, with our id for its call and with arguments that arrived only as deltas. */
function finished(item: OpenItem, raw: RawItem): RawItem {
  const called = text(raw.call_id) ? { call_id: item.callId } : {}
  const isMissing = raw.type !== 'custom_tool_call' && raw.arguments === '' && item.written !== ''
  const isInputMissing = raw.type === 'custom_tool_call' && raw.input === '' && item.written !== ''
  return {
    ...raw,
    ...(roleOf(raw) === 'outcome' ? {} : called),
    ...(isMissing ? { arguments: item.written } : {}),
    ...(isInputMissing ? { input: item.written } : {}),
  }
}

/** The call that an outcome belongs to. An outcome that names none belongs to the last call of its kind. */
function callOfOutcome(mapping: Mapping, raw: RawItem, itemId: string): string {
  const items = [...mapping.items.values()]
  const named = callNamedBy(raw)
  const found =
    named === null
      ? items.findLast((item) => isCallOf(item.type, raw.type))
      : items.findLast((item) => item.raw.call_id === named || item.itemId === named)
  return found?.callId ?? usableId(named ?? itemId, `call_${itemId}`)
}

const MAX_CALL_ID = 200

/** The provider's id, unless another call of the run has it or it can't be used in an answer. */
function usableCallId(mapping: Mapping, given: string, outputIndex: number): string {
  const isTaken = mapping.hasCall(given) || [...mapping.items.values()].some((item) => item.callId === given)
  const other = `call_${mapping.responseId}_${outputIndex}`
  return isTaken ? other : usableId(given, other)
}

function usableId(given: string, other: string): string {
  return given.length > MAX_CALL_ID || given.includes('\0') ? other : given
}

function noteCall(mapping: Mapping, item: OpenItem, raw: RawItem): void {
  mapping.result.calls.push({
    toolType: toolTypeOf(raw.type),
    callId: item.callId,
    name: item.name,
    arguments: argumentsOf(raw) ?? '{}',
    responseId: mapping.responseId,
    outputIndex: item.outputIndex,
    itemId: item.itemId,
  })
}

/** Emits the content that no earlier event has sent. */
function endContent(mapping: Mapping, item: OpenItem, raw: RawItem, sequence: number | undefined): void {
  if (raw.type === 'message') return endMessage(mapping, item, raw, sequence)
  if (raw.type === 'reasoning') return endReasoning(mapping, item, raw, sequence)
  const written = argumentsOf(raw)
  if (written !== null) {
    mapping.emit({
      kind: 'tool.arguments.done',
      ...itemFields(mapping, item, { sequence_number: sequence }),
      tool_call_id: item.callId,
      tool_type: toolTypeOf(item.type),
      tool_name: item.name,
      ...shownArguments(written, item.type),
    })
  }
  if (raw.type === 'mcp_approval_request') {
    return toolStatus(mapping, item, 'awaiting_approval', sequence)
  }
  // The card ends when its outcome arrives.
  if (isRunByUs(raw)) return
  if (!item.hasCode && typeof raw.code === 'string') {
    mapping.emit({
      kind: 'tool.code.done',
      ...itemFields(mapping, item, { sequence_number: sequence }),
      tool_call_id: item.callId,
      code: raw.code,
    })
  }
  if (raw.type === 'image_generation_call' && typeof raw.result === 'string') {
    sendChunks(mapping, item, { field: 'result' }, raw.result)
  }
  endCard(mapping, item, raw, sequence)
}

const FAILED = new Set<unknown>(['failed', 'incomplete'])

function endCard(mapping: Mapping, item: OpenItem, raw: RawItem, sequence: number | undefined): void {
  const output = shownResult(raw)
  if (output !== undefined && output !== null) sendOutput(mapping, item, output, sequence)
  const isFailed = FAILED.has(raw.status) || Boolean(raw.error)
  toolStatus(mapping, item, isFailed ? 'failed' : 'completed', sequence)
}

function shownResult(raw: RawItem): unknown {
  const output = outputOf(raw)
  return raw.type === 'file_search_call' && output ? resultsOf(output) : output
}

function endMessage(mapping: Mapping, item: OpenItem, raw: RawItem, sequence: number | undefined): void {
  const fields = itemFields(mapping, item, { sequence_number: sequence })
  for (const [content_index, part] of list(raw.content).entries()) {
    const sent = item.text.get(content_index) ?? ''
    const whole = text(part.text)
    if (whole.length > sent.length && whole.startsWith(sent)) {
      mapping.emit({ kind: 'message.delta', ...fields, content_index, delta: whole.slice(sent.length) })
    }
    if (part.type === 'refusal' && !item.refusals.has(content_index)) {
      mapping.emit({ kind: 'refusal.done', ...fields, content_index, refusal_text: text(part.refusal) })
    }
    const citations = list(part.annotations).slice(0, MAX_CITATIONS)
    for (const citation of citations.slice(item.citations.get(content_index) ?? 0)) {
      mapping.emit({
        kind: 'message.citation',
        ...fields,
        content_index,
        citation: shownCitation(citation),
      })
    }
  }
}

function endReasoning(mapping: Mapping, item: OpenItem, raw: RawItem, sequence: number | undefined): void {
  for (const [summary_index, part] of list(raw.summary).entries()) {
    if (item.summaries.has(summary_index)) continue
    mapping.emit({
      kind: 'reasoning_summary.part.done',
      ...itemFields(mapping, item, { sequence_number: sequence }),
      summary_index,
      text: text(part.text),
    })
  }
}

export function toolStatus(
  mapping: Mapping,
  item: OpenItem,
  status: string,
  sequence: number | undefined,
): void {
  const notices: Notice[] = []
  const details = redact(limited(detailsOf(item.raw)), 'tool', notices) as Record<string, unknown>
  mapping.emit({
    kind: 'tool.status',
    ...itemFields(mapping, item, { sequence_number: sequence }),
    tool_call_id: item.callId,
    tool: { tool_type: toolTypeOf(item.type), tool_call_id: item.callId, status, ...details },
    ...(notices.length > 0 ? { notices } : {}),
  })
}

function sendOutput(mapping: Mapping, item: OpenItem, output: unknown, sequence: number | undefined): void {
  mapping.emit({
    kind: 'tool.output',
    ...itemFields(mapping, item, { sequence_number: sequence }),
    tool_call_id: item.callId,
    tool_type: toolTypeOf(item.type),
    ...shownOutput(output),
  })
}

/** Sends a value that is too large for one frame in chunks. */
export function sendChunks(
  mapping: Mapping,
  item: OpenItem,
  part: { field: string; partIndex?: number },
  data: string,
): void {
  const target = {
    entity_kind: 'tool_call' as const,
    entity_id: item.callId,
    field: part.field,
    ...(part.partIndex === undefined ? {} : { part_index: part.partIndex }),
  }
  const fields = { ...itemFields(mapping, item, {}), target, encoding: 'base64' as const }
  let chunk_index = 0
  for (let at = 0; at < data.length; at += CHUNK_CHARACTERS, chunk_index++) {
    mapping.emit({
      kind: 'chunk.delta',
      ...fields,
      chunk_index,
      data: data.slice(at, at + CHUNK_CHARACTERS),
    })
  }
  mapping.emit({ kind: 'chunk.done', ...fields, chunk_index })
}

/** The fields that every frame of an item has. */
export function itemFields(
  mapping: Mapping,
  item: OpenItem,
  event: { sequence_number?: number | undefined },
) {
  const { sequence_number } = event
  return {
    response_id: mapping.responseId,
    output_index: item.outputIndex,
    item_id: item.itemId,
    ...(Number.isSafeInteger(sequence_number) ? { provider_sequence_number: sequence_number } : {}),
  }
}

function itemFrame(mapping: Mapping, item: OpenItem, raw: RawItem, sequence: number | undefined) {
  return {
    ...itemFields(mapping, item, { sequence_number: sequence }),
    item_type: raw.type,
    ...(typeof raw.role === 'string' ? { role: raw.role } : {}),
    ...(typeof raw.status === 'string' ? { status: raw.status } : {}),
  }
}

/** Arguments as a frame shows them: within their limits and without secrets. */
export function shownArguments(
  written: string,
  itemType = 'function_call',
): Pick<FrameDraft<'tool.arguments.done'>, 'arguments_text' | 'arguments_json' | 'notices'> {
  const notices: Notice[] = []
  const parsed = parseObject(written)
  const json =
    parsed &&
    limitStrings(redact(parsed, 'arguments_json', notices), MAX_ARGUMENT_STRING, 'arguments_json', notices)
  const whole = isJsonWriter(itemType) ? createTextRedactor().push(written) : written
  if (whole.length > MAX_ARGUMENTS_TEXT) {
    notices.push(truncatedNotice('arguments_text', whole.length, MAX_ARGUMENTS_TEXT))
  }
  return {
    arguments_text: cutText(whole, MAX_ARGUMENTS_TEXT),
    ...(json ? { arguments_json: json } : {}),
    ...(notices.length > 0 ? { notices } : {}),
  }
}

/** A tool's output as a frame shows it: within its limits and without secrets. */
export function shownOutput(output: unknown): { output: unknown; notices?: Notice[] } {
  const notices: Notice[] = []
  const shown = limitStrings(
    redact(output, 'output', notices),
    MAX_OUTPUT_STRING,
    'output',
    notices,
    cutMiddle,
  )
  return { output: shown, ...(notices.length > 0 ? { notices } : {}) }
}

/** Arguments while they stream: the shown pieces add up to the finished arguments as shown. */
function createArgumentsText(itemType: string): ArgumentsText {
  const redactor = isJsonWriter(itemType) ? createTextRedactor() : null
  let shown = 0
  return {
    next(piece) {
      if (shown >= MAX_ARGUMENTS_TEXT) return ''
      const safe = redactor ? redactor.push(piece) : piece
      const delta = cutText(safe, MAX_ARGUMENTS_TEXT - shown)
      shown = delta.length < safe.length ? MAX_ARGUMENTS_TEXT : shown + delta.length
      return delta
    },
  }
}

/** The input of these two types is plain text; that of all others is JSON. */
function isJsonWriter(itemType: string): boolean {
  return itemType !== 'custom_tool_call' && itemType !== 'shell_call'
}

/** The tool's input as text; null when the type has none. */
function argumentsOf(raw: RawItem): string | null {
  const written = inputOf(raw)
  if (written !== null && written.length > MAX_CALL_CHARACTERS) throw tooLarge()
  return written
}

/** The details that a card shows besides name, status and output. */
function detailsOf(raw: RawItem): Record<string, unknown> {
  switch (raw.type) {
    case 'web_search_call': {
      const { query, sources } = (raw.action ?? {}) as { query?: unknown; sources?: unknown }
      return known({ query, sources, action: (raw.action as { type?: unknown } | undefined)?.type })
    }
    case 'file_search_call':
      return known({ queries: raw.queries, results: raw.results ? resultsOf(raw.results) : undefined })
    case 'code_interpreter_call':
      return known({ container_id: raw.container_id })
    case 'image_generation_call':
      return known({ format: raw.output_format, size: raw.size, quality: raw.quality })
    case 'mcp_call':
    case 'mcp_approval_request':
      return known({ tool_name: raw.name, server_label: raw.server_label })
    default:
      return known({ name: toolNameOf(raw) || undefined })
  }
}

function resultsOf(results: unknown): Record<string, unknown>[] {
  return list(results)
    .slice(0, MAX_RESULTS)
    .map(({ file_id, filename, score, text: found }) =>
      known({ file_id, filename, score, text: cutText(text(found), MAX_RESULT_TEXT) }),
    )
}

function known(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  )
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function list(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? (value as Record<string, unknown>[]) : []
}

function parseObject(written: string): object | null {
  try {
    const value: unknown = JSON.parse(written)
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}
