import type { ToolCallContent, ToolCallUpdate, ToolKind } from '@agentclientprotocol/sdk'
import { cutText } from '../../core/limits.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import { shownArguments } from '../provider/stream-items.ts'

/** A tool call of a hosted agent, as its updates have described it so far. */
export interface AgentCall {
  callId: string
  place: { response_id: string; output_index: number; item_id: string; tool_call_id: string }
  kind: ToolKind
  name: string
  title: string
  input: unknown
  content: ToolCallContent[]
  rawOutput: unknown
  /** What a terminal of the agent's own has printed. */
  printed: string
  locations: { path: string; line?: number | null | undefined }[]
  /** When its first message arrived, in ms. */
  startedAt: number
  /** The output that partial frames have shown. */
  shown: string
  stage: 'awaiting_approval' | 'in_progress'
  /** The last status that was shown. */
  status: string
  hasEnded: boolean
  /** A person or a policy has denied it. */
  isDenied: boolean
}

const MAX_TITLE = 500
const MAX_LOCATIONS = 50
export const MAX_OUTPUT = 1024 * 1024

const kinds: Record<ToolKind, 'none' | 'unrecorded'> = {
  read: 'none',
  search: 'none',
  think: 'none',
  fetch: 'none',
  switch_mode: 'none',
  edit: 'unrecorded',
  delete: 'unrecorded',
  move: 'unrecorded',
  execute: 'unrecorded',
  other: 'unrecorded',
}

/** Whether a call of this kind may change files. Agents also send kinds that this version doesn't know. */
export function mayChangeFiles(kind: string): boolean {
  return !Object.hasOwn(kinds, kind) || kinds[kind as ToolKind] !== 'none'
}

/** Takes over what an update says; fields that it leaves out stay as they are. */
export function updateCall(call: AgentCall, update: Partial<ToolCallUpdate>): void {
  const { kind, title, content, locations, rawInput, rawOutput } = update
  if (kind) call.kind = kind
  if (typeof title === 'string') call.title = cutText(title, MAX_TITLE)
  if (Array.isArray(content)) call.content = content
  if (Array.isArray(locations)) call.locations = locations.filter(isLocation).slice(0, MAX_LOCATIONS)
  if (rawInput !== undefined && rawInput !== null) call.input = rawInput
  if (rawOutput !== undefined && rawOutput !== null) call.rawOutput = rawOutput
  call.printed = cutText(call.printed + printedIn(update), MAX_OUTPUT)
}

/** Agents that run a terminal themselves report its output in this way, piece by piece. */
function printedIn({ _meta }: Partial<ToolCallUpdate>): string {
  const { terminal_output_delta: delta, terminal_output: output } = (_meta ?? {}) as Record<string, unknown>
  const { data } = (delta ?? output ?? {}) as { data?: unknown }
  return typeof data === 'string' ? data : ''
}

function isLocation(value: unknown): value is AgentCall['locations'][number] {
  return typeof (value as { path?: unknown } | null)?.path === 'string'
}

export function argumentsOf({ input }: Pick<AgentCall, 'input'>): string {
  return input === undefined ? '{}' : JSON.stringify(input)
}

export function argumentsFrame(call: AgentCall): FrameDraft<'tool.arguments.done'> {
  return {
    kind: 'tool.arguments.done',
    ...call.place,
    tool_type: 'function',
    tool_name: call.name,
    ...shownArguments(argumentsOf(call)),
  }
}

export function statusFrame(call: AgentCall, status: string): FrameDraft<'tool.status'> {
  return {
    kind: 'tool.status',
    ...call.place,
    tool: {
      tool_type: 'function',
      tool_call_id: call.callId,
      status,
      name: call.name,
      title: call.title,
      kind: call.kind,
      file_effect: mayChangeFiles(call.kind) ? 'unrecorded' : 'none',
      ...(call.locations.length > 0 ? { locations: call.locations } : {}),
    },
  }
}

/** The call's output as text: its contents, or what the agent calls its raw output. */
export function outputOf(call: AgentCall, terminalOutput: (id: string) => string): string {
  const ofTerminal = (id: string) => terminalOutput(id) || call.printed
  const text = call.content.map((one) => textOf(one, ofTerminal)).join('')
  return cutText(text === '' ? rawText(call.rawOutput) : text, MAX_OUTPUT)
}

function textOf(content: ToolCallContent, terminalOutput: (id: string) => string): string {
  switch (content.type) {
    case 'content': {
      const { content: block } = content
      if (block.type === 'text') return block.text
      return `[${block.type}]\n`
    }
    case 'diff':
      return `${content.oldText === null || content.oldText === undefined ? 'New file' : 'Edited'} ${content.path}\n`
    case 'terminal':
      return terminalOutput(content.terminalId)
    default:
      return `[${String((content as { type?: unknown }).type)}]\n`
  }
}

/** Agents report a command's output under one of these names. */
const outputKeys = ['formatted_output', 'aggregated_output', 'output', 'stdout', 'text', 'content'] as const

function rawText(raw: unknown): string {
  if (raw === undefined) return ''
  if (typeof raw === 'string') return raw
  if (typeof raw === 'object' && raw !== null) {
    for (const key of outputKeys) {
      const value = (raw as Record<string, unknown>)[key]
      if (typeof value === 'string') return value
    }
  }
  return JSON.stringify(raw)
}

/** The paths that the call itself names as changed. */
export function pathsOf(call: AgentCall): string[] {
  const diffs = call.content.flatMap((one) => (one.type === 'diff' ? one.path : []))
  return [...new Set([...diffs, ...call.locations.map(({ path }) => path)])]
}
