import type { Frame } from '../protocol/frames.ts'
import { updateItem } from './items.ts'
import { keyOf, newTool, type PlacedItem } from './new-item.ts'
import { type Item, type ToolItem, type ToolPhase, toolPhases } from './transcript.ts'

/** Tool cards, matched by `tool_call_id` wherever their frames occur in the run. */

const toolKinds = [
  'tool.status',
  'tool.arguments.delta',
  'tool.arguments.done',
  'tool.code.delta',
  'tool.code.done',
  'tool.output',
  'tool.approval',
] as const

export type ToolFrame = Frame<(typeof toolKinds)[number]>

const isToolKind = new Set<string>(toolKinds)

export function isToolFrame(frame: Frame): frame is ToolFrame {
  return isToolKind.has(frame.kind)
}

export function applyToTool(items: Item[], frame: ToolFrame): void {
  const index = items.findLastIndex((item) => item.type === 'tool' && item.toolCallId === frame.tool_call_id)
  const known = items[index]
  if (known?.type === 'tool') {
    items[index] = changed(known, frame)
    return
  }
  // Unknown call id: use the card that waits at the frame's place, or create one.
  const place = items.findLast((item) => item.type !== 'mark' && item.key === keyOf(frame))
  const isFree = !place || place.type === 'other' || (place.type === 'tool' && place.toolCallId === null)
  if (!isFree) {
    const card = {
      ...newTool(frame),
      key: `${keyOf(frame)} ${frame.tool_call_id}`,
      toolCallId: frame.tool_call_id,
    }
    items.push(changed(card, frame))
    return
  }
  updateItem(
    items,
    frame,
    newTool,
    (item): PlacedItem =>
      item.type === 'tool' ? changed({ ...item, toolCallId: frame.tool_call_id }, frame) : item,
  )
}

function changed(tool: ToolItem, frame: ToolFrame): ToolItem {
  switch (frame.kind) {
    case 'tool.status':
      return withStatus(tool, frame)
    case 'tool.arguments.delta':
      return { ...named(tool, frame), argumentsText: tool.argumentsText + frame.delta }
    case 'tool.arguments.done':
      return {
        ...named(tool, frame),
        argumentsText: frame.arguments_text,
        argumentsJson: frame.arguments_json,
        phase: forward(tool.phase, 'called'),
      }
    case 'tool.code.delta':
      return { ...tool, code: (tool.code ?? '') + frame.delta }
    case 'tool.code.done':
      return { ...tool, code: frame.code }
    case 'tool.output':
      return withOutput(tool, frame)
    case 'tool.approval':
      return {
        ...waiting(tool, frame),
        name: tool.name ?? frame.tool_name,
        approval: {
          status: frame.status,
          reason: frame.reason ?? null,
          by: frame.by ?? null,
          confinement: frame.confinement ?? tool.approval?.confinement ?? null,
          grant: frame.grant ?? null,
          ruleId: frame.rule_id ?? null,
        },
      }
  }
}

/** Counts the time between a question and its answer. */
function waiting(tool: ToolItem, { status, server_timestamp: at }: Frame<'tool.approval'>): ToolItem {
  if (status === 'requested') return { ...tool, waitingSince: tool.waitingSince ?? at }
  if (tool.waitingSince === null) return tool
  const waitedMs = tool.waitedMs + Math.max(0, Date.parse(at) - Date.parse(tool.waitingSince))
  return { ...tool, waitedMs, waitingSince: null }
}

function withStatus(tool: ToolItem, frame: Frame<'tool.status'>): ToolItem {
  const { tool: details } = frame
  const failed = details.status === 'failed'
  const phase = failed
    ? 'failed'
    : forward(tool.phase, details.status === 'completed' ? 'output' : 'arguments')
  const isOver = failed || details.status === 'completed'
  return {
    ...tool,
    toolType: details.tool_type,
    name: details.name ?? details.tool_name ?? tool.name,
    phase,
    // A late status does not move the card back.
    toolStatus:
      tool.phase === 'failed' || (tool.endedAt !== null && !isOver) ? tool.toolStatus : details.status,
    argumentsText: details.arguments_text ?? tool.argumentsText,
    output: details.output === undefined ? tool.output : details.output,
    details: { ...tool.details, ...details },
    endedAt: isOver ? (tool.endedAt ?? frame.server_timestamp) : tool.endedAt,
  }
}

function withOutput(tool: ToolItem, frame: Frame<'tool.output'>): ToolItem {
  if (frame.partial) {
    const output = continued(tool.output, frame.output)
    return { ...tool, toolType: frame.tool_type, output, phase: forward(tool.phase, 'called') }
  }
  return {
    ...tool,
    toolType: frame.tool_type,
    output: frame.output,
    isOutputCut: frame.output_ref !== undefined,
    phase: forward(tool.phase, 'output'),
    endedAt: tool.endedAt ?? frame.server_timestamp,
  }
}

/** Text is appended; any other value replaces the previous one. */
function continued(before: unknown, piece: unknown): unknown {
  return typeof before === 'string' && typeof piece === 'string' ? before + piece : piece
}

function named(tool: ToolItem, frame: Frame<'tool.arguments.delta' | 'tool.arguments.done'>): ToolItem {
  return { ...tool, toolType: frame.tool_type, name: frame.tool_name }
}

/** A card's phase only moves forward. */
function forward(before: ToolPhase, next: ToolPhase): ToolPhase {
  return toolPhases.indexOf(next) > toolPhases.indexOf(before) ? next : before
}
