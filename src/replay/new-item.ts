import type { Item, ItemStatus, OtherItem, ReasoningItem, TextItem, ToolItem } from './transcript.ts'

export type PlacedItem = Exclude<Item, { type: 'mark' }>

/** Fields of every item frame. */
export interface ItemAnchor {
  event_id: number
  response_id?: string | undefined
  output_index: number
  item_id: string
  server_timestamp: string
}

export function keyOf(frame: ItemAnchor): string {
  return `${frame.response_id ?? ''}#${frame.output_index}`
}

export function anchorOf(frame: ItemAnchor) {
  return {
    key: keyOf(frame),
    responseId: frame.response_id ?? null,
    outputIndex: frame.output_index,
    itemIds: [frame.item_id],
    status: 'in_progress' as const,
    chunks: {},
  }
}

export function newTool(frame: ItemAnchor, toolType = 'function'): ToolItem {
  return {
    type: 'tool',
    ...anchorOf(frame),
    toolCallId: null,
    toolType,
    name: null,
    phase: 'arguments',
    toolStatus: null,
    argumentsText: '',
    argumentsJson: undefined,
    code: null,
    output: undefined,
    isOutputCut: false,
    approval: null,
    edits: [],
    details: null,
    startedAt: frame.server_timestamp,
    endedAt: null,
    waitedMs: 0,
    waitingSince: null,
  }
}

export function newText(frame: ItemAnchor): TextItem {
  return { type: 'text', ...anchorOf(frame), role: null, parts: [] }
}

export function newReasoning(frame: ItemAnchor): ReasoningItem {
  return { type: 'reasoning', ...anchorOf(frame), parts: [] }
}

export function newOther(frame: ItemAnchor): OtherItem {
  return { type: 'other', ...anchorOf(frame), itemType: 'unknown' }
}

export function closedItem<T extends Item>(item: T, status: ItemStatus): T {
  return item.type !== 'mark' && item.status === 'in_progress' ? { ...item, status } : item
}
