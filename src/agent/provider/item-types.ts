import type { ResponseInputItem, ResponseOutputItem } from 'openai/resources/responses/responses'
import { cutText } from '../../core/limits.ts'

/** An item as its provider sends it; most fields depend on the type, and some types are new to us. */
export type RawItem = { type: string; id?: string } & Record<string, unknown>

/**
 * The role of an item: `content` is the answer itself, a `call` invokes a tool, an `outcome` belongs on the card of its
 * call, and a `note` is anything else, shown on its own card.
 */
type ItemRole = 'content' | 'call' | 'outcome' | 'note'

interface ItemShape {
  role: ItemRole
  /** For calls: which side runs it, unless its outcome arrives in the same stream. */
  runBy?: 'us' | 'provider'
  /** The fields that hold the input and the output. The first one that is set counts. */
  input?: readonly string[]
  output?: readonly string[]
  /** For outcomes: the field that names the call. */
  callField?: string
}

const hosted = { role: 'call', runBy: 'provider' } as const
const ours = { role: 'call', runBy: 'us' } as const
const outcome = { role: 'outcome', callField: 'call_id', output: ['output'] } as const
const note = { role: 'note' } as const

/** Every type that the SDK knows: a new one is a compile error. */
const shapes: Record<ResponseOutputItem['type'], ItemShape> = {
  message: { role: 'content' },
  reasoning: { role: 'content' },
  function_call: { ...ours, input: ['arguments'] },
  custom_tool_call: { ...ours, input: ['input'] },
  shell_call: { ...ours, input: ['action'] },
  local_shell_call: { ...ours, input: ['action'] },
  apply_patch_call: { ...ours, input: ['operation'] },
  computer_call: { ...ours, input: ['actions', 'action'] },
  mcp_approval_request: { ...ours, input: ['arguments'] },
  tool_search_call: { ...hosted, input: ['arguments'] },
  program: hosted,
  web_search_call: hosted,
  file_search_call: { ...hosted, output: ['results'] },
  code_interpreter_call: { ...hosted, output: ['outputs'] },
  image_generation_call: { ...hosted, output: ['error'] },
  mcp_call: { ...hosted, input: ['arguments'], output: ['output', 'error'] },
  function_call_output: outcome,
  custom_tool_call_output: outcome,
  shell_call_output: outcome,
  local_shell_call_output: { ...outcome, callField: 'id' },
  apply_patch_call_output: outcome,
  computer_call_output: outcome,
  tool_search_output: { ...outcome, output: ['tools'] },
  program_output: { ...outcome, output: ['result'] },
  mcp_approval_response: { role: 'outcome', callField: 'approval_request_id' },
  mcp_list_tools: { ...note, output: ['error', 'tools'] },
  additional_tools: { ...note, output: ['tools'] },
  // Its content is encrypted: there is nothing to show.
  compaction: { ...note, output: [] },
}

function shapeOf(raw: RawItem): ItemShape {
  return Object.hasOwn(shapes, raw.type) ? shapes[raw.type as ResponseOutputItem['type']] : unknownShape(raw)
}

/** Providers give an id to calls that the client must answer, and none to calls that they run themselves. */
function unknownShape({ type, call_id }: RawItem): ItemShape {
  const hasCallId = typeof call_id === 'string' && call_id !== ''
  if (type.endsWith('_output')) return hasCallId ? outcome : note
  if (hasCallId) return ours
  return type.endsWith('_call') ? hosted : note
}

export function roleOf(raw: RawItem): ItemRole {
  return shapeOf(raw).role
}

export function isRunByUs(raw: RawItem): boolean {
  return shapeOf(raw).runBy === 'us' || (raw.type === 'tool_search_call' && raw.execution === 'client')
}

/** The provider's id of the call that an outcome belongs to; null when it names none. */
export function callNamedBy(raw: RawItem): string | null {
  const { callField = 'call_id' } = shapeOf(raw)
  return text(raw[callField]) || null
}

/** True if an outcome that names no call may belong to this call. */
export function isCallOf(call: string, outcomeType: string): boolean {
  return call.replace(/_call$/, '') === outcomeType.replace(/(_call)?_output$/, '')
}

/** Fields that describe an item rather than hold its content. */
const ENVELOPE = new Set([
  'type',
  'id',
  'call_id',
  'status',
  'name',
  'role',
  'content',
  'created_by',
  'caller',
])
const OUTPUT_NAMES = ['output', 'outputs', 'result', 'results', 'error']

/** The tool's input as text; null when the type has none. */
export function inputOf(raw: RawItem): string | null {
  const { role, input } = shapeOf(raw)
  if (role !== 'call') return null
  const { commands } = (raw.action ?? {}) as { commands?: unknown }
  if (raw.type === 'shell_call' && Array.isArray(commands)) return commands.join('\n')
  if (input) return asText(firstOf(raw, input))
  return Object.hasOwn(shapes, raw.type) ? null : asText(restOf(raw, OUTPUT_NAMES))
}

/** The tool's output; undefined when the item has none. */
export function outputOf(raw: RawItem): unknown {
  if (raw.type === 'web_search_call') return (raw.action as { sources?: unknown } | undefined)?.sources
  if (raw.type === 'mcp_approval_response') return approvalText(raw)
  const { role, output } = shapeOf(raw)
  if (output) return firstOf(raw, output)
  if (Object.hasOwn(shapes, raw.type)) return undefined
  return role === 'call' ? firstOf(raw, OUTPUT_NAMES) : restOf(raw, [])
}

function approvalText({ approve, reason }: RawItem): string {
  const answer = approve === true ? 'Approved' : 'Denied'
  return text(reason) ? `${answer}: ${text(reason)}` : `${answer}.`
}

function firstOf(raw: RawItem, names: readonly string[]): unknown {
  const found = names.find((name) => raw[name] !== undefined && raw[name] !== null)
  return found === undefined ? undefined : raw[found]
}

/** All other fields; undefined when there are none. */
function restOf(raw: RawItem, besides: readonly string[]): unknown {
  const rest = Object.entries(raw).filter(([name]) => !ENVELOPE.has(name) && !besides.includes(name))
  return rest.length === 0 ? undefined : Object.fromEntries(rest)
}

/** The tool's type as frames name it. */
export function toolTypeOf(itemType: string): string {
  if (itemType === 'mcp_approval_request' || itemType === 'mcp_approval_response') return 'mcp'
  return itemType.replace(/(_call)?_output$/, '').replace(/_call$/, '')
}

const MAX_NAME = 200

/** The tool's name as shown to people; empty for items that belong to no tool. */
export function toolNameOf(raw: RawItem): string {
  const name = cutText(text(raw.name), MAX_NAME)
  if (raw.type === 'mcp_approval_request') return `${cutText(text(raw.server_label), MAX_NAME)}__${name}`
  return name || (roleOf(raw) === 'content' ? '' : toolTypeOf(raw.type))
}

/** An image of one transparent pixel: the API accepts no text as the outcome of a `computer_call`. */
const NO_SCREEN =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

export interface AnsweredCall {
  toolType: string
  callId: string
  /** The provider's id of the item. */
  itemId: string
}

/** The outcome of a call, in the form that the API requires for its type. */
export function outcomeItem(call: AnsweredCall, output: string, isApproved: boolean): ResponseInputItem {
  const { toolType, callId, itemId } = call
  switch (toolType) {
    case 'function':
      return { type: 'function_call_output', call_id: callId, output }
    case 'custom_tool':
      return { type: 'custom_tool_call_output', call_id: callId, output }
    case 'mcp':
      return {
        type: 'mcp_approval_response',
        approval_request_id: itemId,
        approve: isApproved,
        ...(isApproved ? {} : { reason: output }),
      }
    // The other types were never offered, so their outcome only reports that they did not run.
    case 'shell': {
      const end = { type: 'exit' as const, exit_code: 1 }
      return {
        type: 'shell_call_output',
        call_id: callId,
        output: [{ stdout: '', stderr: output, outcome: end }],
      }
    }
    case 'local_shell':
      return { type: 'local_shell_call_output', id: callId, output }
    case 'apply_patch':
      return { type: 'apply_patch_call_output', call_id: callId, status: 'failed', output }
    case 'computer': {
      const screen = { type: 'computer_screenshot' as const, image_url: NO_SCREEN }
      return { type: 'computer_call_output', call_id: callId, output: screen }
    }
    case 'tool_search':
      return { type: 'tool_search_output', call_id: callId, execution: 'client', tools: [] }
    default:
      return { type: `${toolType}_call_output`, call_id: callId, output } as unknown as ResponseInputItem
  }
}

function asText(value: unknown): string | null {
  if (value === undefined || value === null) return null
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
