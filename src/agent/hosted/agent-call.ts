import type { ToolCallUpdate, ToolKind } from '@agentclientprotocol/sdk'
import { cutText } from '../../core/limits.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import { shownArguments } from '../provider/stream-items.ts'

export type KeptContent =
  | { type: 'text'; text: string }
  | { type: 'diff'; path: string; isNew: boolean }
  | { type: 'terminal'; terminalId: string }

/** A tool call of a hosted agent, as its updates have described it so far. */
export interface AgentCall {
  callId: string
  place: { response_id: string; output_index: number; item_id: string; tool_call_id: string }
  kind: ToolKind
  name: string
  title: string
  input: unknown
  content: KeptContent[]
  rawOutput: string
  /** What a terminal of the agent's own has printed. */
  printed: string
  locations: { path: string; line?: number }[]
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
  /** Resolved when the call has ended and a checkpoint has what it changed. */
  saved: PromiseWithResolvers<void>
}

const MAX_TITLE = 500
const MAX_NAME = 100
const MAX_PATH = 1000
const MAX_LOCATIONS = 50
const MAX_CONTENTS = 200
const MAX_INPUT = 1024 * 1024
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

/** Takes over what an update says; fields that it leaves out, or that have another type, stay as they are. */
export function updateCall(call: AgentCall, update: Partial<ToolCallUpdate>): void {
  const { kind, title, content, locations, rawInput, rawOutput } = update
  if (isText(kind)) call.kind = cutText(kind, MAX_NAME) as ToolKind
  if (isText(title)) call.title = cutText(title, MAX_TITLE)
  if (Array.isArray(content)) call.content = content.slice(0, MAX_CONTENTS).flatMap(keptContent)
  if (Array.isArray(locations)) call.locations = locations.slice(0, MAX_LOCATIONS).flatMap(keptLocation)
  if (rawInput !== undefined && rawInput !== null) call.input = keptInput(rawInput)
  if (rawOutput !== undefined && rawOutput !== null) call.rawOutput = cutText(rawText(rawOutput), MAX_OUTPUT)
  call.printed = cutText(call.printed + printedIn(update), MAX_OUTPUT)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/** Only what a card shows: a program could send much more than that, again and again. */
function keptContent(value: unknown): KeptContent[] {
  const { type, content, path, oldText, terminalId } = (value ?? {}) as Record<string, unknown>
  if (type === 'content') {
    const { type: block, text } = (content ?? {}) as Record<string, unknown>
    if (block === 'text' && isText(text)) return [{ type: 'text', text: cutText(text, MAX_OUTPUT) }]
    return [{ type: 'text', text: `[${isText(block) ? cutText(block, MAX_NAME) : 'content'}]\n` }]
  }
  if (type === 'diff' && isText(path))
    return [{ type: 'diff', path: cutText(path, MAX_PATH), isNew: oldText == null }]
  if (type === 'terminal' && isText(terminalId)) return [{ type: 'terminal', terminalId }]
  return [{ type: 'text', text: `[${isText(type) ? cutText(type, MAX_NAME) : 'content'}]\n` }]
}

function keptLocation(value: unknown): AgentCall['locations'] {
  const { path, line } = (value ?? {}) as Record<string, unknown>
  if (!isText(path)) return []
  return [{ path: cutText(path, MAX_PATH), ...(Number.isSafeInteger(line) ? { line: line as number } : {}) }]
}

function keptInput(input: unknown): unknown {
  return JSON.stringify(input).length > MAX_INPUT ? { too_long: true } : input
}

/** Agents that run a terminal themselves report its output in this way, piece by piece. */
function printedIn({ _meta }: Partial<ToolCallUpdate>): string {
  const { terminal_output_delta: delta, terminal_output: output } = (_meta ?? {}) as Record<string, unknown>
  const { data } = (delta ?? output ?? {}) as { data?: unknown }
  return typeof data === 'string' ? data : ''
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
  const text = call.content
    .map((one) => {
      if (one.type === 'text') return one.text
      if (one.type === 'diff') return `${one.isNew ? 'New file' : 'Edited'} ${one.path}\n`
      return terminalOutput(one.terminalId) || call.printed
    })
    .join('')
  return cutText(text === '' ? call.rawOutput : text, MAX_OUTPUT)
}

/** Agents report a command's output under one of these names. */
const outputKeys = ['formatted_output', 'aggregated_output', 'output', 'stdout', 'text', 'content'] as const

function rawText(raw: unknown): string {
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
