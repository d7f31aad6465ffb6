import type { Frame } from '../protocol/frames.ts'
import { addChunk } from './chunks.ts'
import {
  type ItemAnchor,
  keyOf,
  newOther,
  newReasoning,
  newText,
  newTool,
  type PlacedItem,
} from './new-item.ts'
import type { Item, ItemStatus, OtherItem, ReasoningItem, TextItem, TextPart } from './transcript.ts'

/** The items of a run: text and reasoning by `output_index` and part, other types by name. */

const itemKinds = [
  'output_item.added',
  'output_item.done',
  'message.delta',
  'message.citation',
  'reasoning_summary.part.added',
  'reasoning_summary.delta',
  'reasoning_summary.part.done',
  'refusal.delta',
  'refusal.done',
  'chunk.delta',
  'chunk.done',
] as const

export type ItemFrame = Frame<(typeof itemKinds)[number]>

const isItemKind = new Set<string>(itemKinds)

export function isItemFrame(frame: Frame): frame is ItemFrame {
  return isItemKind.has(frame.kind)
}

/** Mutates the list; items are replaced, never mutated. */
export function applyToItems(items: Item[], frame: ItemFrame): void {
  switch (frame.kind) {
    case 'output_item.added':
    case 'output_item.done':
      return updateItem(items, frame, itemOfType(frame), (item) => ({
        ...item,
        ...(item.type === 'text' && frame.role !== undefined ? { role: frame.role } : {}),
        status: statusOf(frame, item.status),
      }))
    case 'chunk.delta':
    case 'chunk.done':
      return updateItem(items, frame, newOther, (item) => addChunk(item, frame))
    case 'reasoning_summary.part.added':
    case 'reasoning_summary.delta':
    case 'reasoning_summary.part.done':
      return updateItem(items, frame, newReasoning, (item) =>
        item.type === 'reasoning' ? addReasoning(item, frame) : item,
      )
    case 'message.delta':
    case 'message.citation':
    case 'refusal.delta':
    case 'refusal.done':
      return updateItem(items, frame, newText, (item) =>
        item.type === 'text' ? changePart(item, frame) : item,
      )
  }
}

/**
 * Finds or creates the item at the frame's place and replaces it with the result of `change`. Items are anchored by
 * `output_index` within their response; item ids are aliases of it (L6).
 */
export function updateItem(
  items: Item[],
  frame: ItemAnchor,
  make: (frame: ItemAnchor) => PlacedItem,
  change: (item: PlacedItem) => PlacedItem,
): void {
  let index = items.findLastIndex((item) => item.type !== 'mark' && item.key === keyOf(frame))
  if (index < 0) {
    index = placeFor(items, frame)
    items.splice(index, 0, make(frame))
  }
  const item = items[index] as PlacedItem
  const made = item.type === 'other' ? retyped(item, make(frame)) : item
  const itemIds = made.itemIds.includes(frame.item_id) ? made.itemIds : [...made.itemIds, frame.item_id]
  items[index] = change({ ...made, itemIds })
}

/** After the response's last item with a smaller index; the first item of a response goes to the end. */
function placeFor(items: readonly Item[], frame: ItemAnchor): number {
  const responseId = frame.response_id ?? null
  const after = items.findIndex(
    (item) => item.type !== 'mark' && item.responseId === responseId && item.outputIndex > frame.output_index,
  )
  return after < 0 ? items.length : after
}

/** Replaces an item of unknown type once its type is known. */
function retyped(item: OtherItem, made: PlacedItem): PlacedItem {
  return made.type === 'other'
    ? item
    : { ...made, itemIds: item.itemIds, status: item.status, chunks: item.chunks }
}

function itemOfType(frame: Frame<'output_item.added' | 'output_item.done'>) {
  return (anchor: ItemAnchor): PlacedItem => {
    if (frame.item_type === 'message') return newText(anchor)
    if (frame.item_type === 'reasoning') return newReasoning(anchor)
    if (frame.item_type.endsWith('_call')) return newTool(anchor, frame.item_type.replace(/_call$/, ''))
    return { ...newOther(anchor), itemType: frame.item_type }
  }
}

function statusOf(frame: Frame<'output_item.added' | 'output_item.done'>, before: ItemStatus): ItemStatus {
  if (frame.kind === 'output_item.added') return before
  return frame.status === 'incomplete' || frame.status === 'in_progress' ? 'incomplete' : 'completed'
}

function changePart(
  item: TextItem,
  frame: Frame<'message.delta' | 'message.citation' | 'refusal.delta' | 'refusal.done'>,
): TextItem {
  return {
    ...item,
    parts: changeAt(
      item.parts,
      (part) => part.contentIndex - frame.content_index,
      () => ({ contentIndex: frame.content_index, text: '', refusal: null, citations: [] }),
      (part) => changedPart(part, frame),
    ),
  }
}

function changedPart(
  part: TextPart,
  frame: Frame<'message.delta' | 'message.citation' | 'refusal.delta' | 'refusal.done'>,
): TextPart {
  switch (frame.kind) {
    case 'message.delta':
      return { ...part, text: part.text + frame.delta }
    case 'message.citation':
      return { ...part, citations: [...part.citations, frame.citation] }
    case 'refusal.delta':
      return { ...part, refusal: (part.refusal ?? '') + frame.delta }
    case 'refusal.done':
      return { ...part, refusal: frame.refusal_text }
  }
}

function addReasoning(
  item: ReasoningItem,
  frame: Frame<'reasoning_summary.part.added' | 'reasoning_summary.delta' | 'reasoning_summary.part.done'>,
): ReasoningItem {
  return {
    ...item,
    parts: changeAt(
      item.parts,
      (part) => part.summaryIndex - frame.summary_index,
      () => ({ summaryIndex: frame.summary_index, text: '' }),
      (part) => ({
        ...part,
        text: frame.kind === 'reasoning_summary.delta' ? part.text + frame.delta : frame.text,
      }),
    ),
  }
}

/** A copy of a list sorted by an index, with the element at that index changed, or created and changed. */
function changeAt<T>(
  list: readonly T[],
  compare: (element: T) => number,
  make: () => T,
  change: (element: T) => T,
): T[] {
  const copy = [...list]
  let index = copy.findIndex((element) => compare(element) >= 0)
  if (index < 0) index = copy.length
  const found = copy[index]
  if (found !== undefined && compare(found) === 0) copy[index] = change(found)
  else copy.splice(index, 0, change(make()))
  return copy
}
