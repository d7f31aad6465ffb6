import type { AnyFrame, Frame } from '../protocol/frames.ts'
import { applyToItems, isItemFrame } from './items.ts'
import { closedItem } from './new-item.ts'
import { applyToTool, isToolFrame } from './tools.ts'
import type { FileEdit, Item, ItemStatus, Mark, RunEntry, RunStatus } from './transcript.ts'

/** A run that the reducer owns: its list may be mutated, its items are replaced. */
export type OwnRun = RunEntry & { items: Item[] }

export function newRun(runId: string, frame: AnyFrame): OwnRun {
  return {
    type: 'run',
    at: frame.event_id,
    upTo: frame.event_id,
    runId,
    status: 'in_progress',
    reason: null,
    retryAt: null,
    agent: null,
    items: [],
    error: null,
    final: null,
    startedAt: frame.server_timestamp,
    endedAt: null,
  }
}

export function applyToRun(run: OwnRun, frame: Frame): void {
  run.retryAt = null
  if (isToolFrame(frame)) return applyToTool(run.items, frame)
  if (isItemFrame(frame)) return applyToItems(run.items, frame)
  switch (frame.kind) {
    case 'file.edit':
      return addEdit(run, frame)
    case 'lifecycle':
      run.status = frame.status
      run.reason = frame.reason ?? run.reason
      if (frame.retry) run.retryAt = later(frame.server_timestamp, frame.retry.wait_ms)
      return
    case 'final':
      run.final = frame.final
      return endRun(run, frame.final.status, frame.server_timestamp)
    case 'error':
      run.error = frame.error
      return endRun(run, 'failed', frame.server_timestamp)
    default:
  }
}

function later(timestamp: string, ms: number): string {
  return new Date(Date.parse(timestamp) + ms).toISOString()
}

export function addMarkToRun(run: OwnRun, frame: AnyFrame, mark: Mark): void {
  if (mark.kind === 'agent') run.agent = mark.to
  const at = frame.event_id
  run.items.push({ type: 'mark', key: `event ${at}`, at, mark })
}

export function endRun(run: OwnRun, status: RunStatus, endedAt: string): void {
  const itemStatus: ItemStatus = status === 'completed' ? 'completed' : 'incomplete'
  run.status = status
  run.endedAt = endedAt
  run.items = run.items.map((item) => closedItem(item, itemStatus))
}

export function editOf(frame: Frame<'file.edit'>): FileEdit {
  const { path, change, additions, deletions, diff, previous_checkpoint } = frame
  const previous = previous_checkpoint ?? null
  return { path, change, additions, deletions, diff: diff ?? null, previousCheckpoint: previous }
}

/** Adds the edit to the card of the call that made it. */
function addEdit(run: OwnRun, frame: Frame<'file.edit'>): void {
  const { items } = run
  const index = items.findLastIndex((item) => item.type === 'tool' && item.toolCallId === frame.tool_call_id)
  const tool = items[index]
  if (tool?.type === 'tool') items[index] = { ...tool, edits: [...tool.edits, editOf(frame)] }
  else addMarkToRun(run, frame, { kind: 'edit', edit: editOf(frame) })
}
