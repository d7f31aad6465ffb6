import type { AnyFrame, Frame, FrameDraft } from '../protocol/frames.ts'
import { type Grant, noGrant } from './questions.ts'

/**
 * The state of a run according to its frames: open items, calls that have begun, calls with an outcome. Derived from
 * the frames alone, so a worker that takes over a run knows what its previous holder knew (R3, R4).
 */
export interface RunRecord {
  note(frame: FrameDraft | AnyFrame): void
  hasMessage(): boolean
  openItems(): OpenItem[]
  call(toolCallId: string): CallRecord | undefined
  /** Calls with neither an outcome nor an ended status. */
  openCalls(): CallRecord[]
  /** The output of the last response that produced text. */
  said(): { text: string; refusal: string; reasoning: string }
  /** True if the model has produced any output. */
  hasOutput(): boolean
}

export interface OpenItem {
  response_id?: string | undefined
  output_index: number
  item_id: string
  item_type: string
}

export interface CallRecord {
  /** The frame that requested it; null while its arguments are still streaming. */
  asked: FrameDraft<'tool.arguments.done'> | null
  /** The call may have had its effect; only a call without side effects is run again. */
  hasBegun: boolean
  /** Its last status is a final one. */
  hasEnded: boolean
  outcome: Frame<'tool.output'> | FrameDraft<'tool.output'> | null
  approval: 'requested' | 'approved' | 'denied' | null
  grant: Grant
  /** The last question asked for it. */
  questionSha256: string | null
}

type Said = { text: string; refusal: string; reasoning: string; responseId: string | undefined }

export function createRunRecord(frames: Iterable<FrameDraft | AnyFrame> = []): RunRecord {
  const open = new Map<string, OpenItem>()
  const calls = new Map<string, CallRecord>()
  let hasMessage = false
  let hasOutput = false
  let said: Said = { text: '', refusal: '', reasoning: '', responseId: undefined }

  /** The last response is the answer; text before tool calls is intermediate. */
  function saidBy(responseId: string | undefined): Said {
    if (said.responseId !== responseId) said = { text: '', refusal: '', reasoning: '', responseId }
    return said
  }

  function callOf(toolCallId: string): CallRecord {
    let call = calls.get(toolCallId)
    if (!call)
      calls.set(
        toolCallId,
        (call = {
          asked: null,
          hasBegun: false,
          hasEnded: false,
          outcome: null,
          approval: null,
          grant: noGrant,
          questionSha256: null,
        }),
      )
    return call
  }

  function note(any: FrameDraft | AnyFrame): void {
    const frame = any as FrameDraft
    switch (frame.kind) {
      case 'message.user':
        hasMessage = true
        return
      case 'output_item.added':
        hasOutput = true
        open.set(keyOf(frame), asOpenItem(frame))
        return
      case 'output_item.done':
        open.delete(keyOf(frame))
        return
      case 'message.delta':
        saidBy(frame.response_id).text += frame.delta
        return
      case 'refusal.delta':
        saidBy(frame.response_id).refusal += frame.delta
        return
      case 'refusal.done':
        saidBy(frame.response_id).refusal = frame.refusal_text
        return
      case 'reasoning_summary.delta':
        saidBy(frame.response_id).reasoning += frame.delta
        return
      case 'tool.arguments.done':
        callOf(frame.tool_call_id).asked = frame
        return
      case 'tool.status':
        noteStatus(callOf(frame.tool_call_id), frame)
        return
      case 'tool.output':
        if (!frame.partial) callOf(frame.tool_call_id).outcome = frame
        return
      case 'tool.approval':
        noteApproval(callOf(frame.tool_call_id), frame)
        return
      default:
    }
  }

  for (const frame of frames) note(frame)
  return {
    note,
    hasMessage: () => hasMessage,
    hasOutput: () => hasOutput,
    openItems: () => [...open.values()],
    call: (toolCallId) => calls.get(toolCallId),
    openCalls: () => [...calls.values()].filter(isOpen),
    said: () => said,
  }
}

function isOpen({ asked, outcome, hasEnded }: CallRecord): boolean {
  return asked !== null && outcome === null && !hasEnded
}

function noteStatus(call: CallRecord, { tool }: FrameDraft<'tool.status'>): void {
  if (NOT_BEGUN.has(tool.status)) {
    // A hosted agent announces a call before it asks for the permission.
    call.hasBegun = false
    return
  }
  call.hasBegun = true
  if (tool.status === 'completed' || tool.status === 'failed') call.hasEnded = true
}

const NOT_BEGUN = new Set(['awaiting_approval'])

function noteApproval(call: CallRecord, frame: FrameDraft<'tool.approval'>): void {
  call.approval = frame.status
  call.grant = frame.grant ?? noGrant
  call.questionSha256 = frame.question_sha256 ?? call.questionSha256
}

/** Frames that close open items. */
export function closeItems(record: RunRecord): FrameDraft<'output_item.done'>[] {
  return record.openItems().map((item) => ({ kind: 'output_item.done', ...item, status: 'incomplete' }))
}

/** Frames that close calls which no worker will resume, so that no call is left without an outcome. */
export function closeCalls(record: RunRecord): FrameDraft[] {
  return record.openCalls().flatMap(({ asked, hasBegun }) => {
    if (!asked) return []
    const { response_id, output_index, item_id, tool_call_id, tool_type, tool_name } = asked
    const place = {
      ...(response_id === undefined ? {} : { response_id }),
      output_index,
      item_id,
      tool_call_id,
    }
    const output = hasBegun ? 'Outcome unknown.' : 'Not run.'
    const tool = { tool_type, tool_call_id, status: 'failed', name: tool_name }
    return [
      { kind: 'tool.output', ...place, tool_type, output },
      { kind: 'tool.status', ...place, tool },
    ]
  })
}

function keyOf(item: { response_id?: string | undefined; output_index: number }): string {
  return `${item.response_id ?? ''}#${item.output_index}`
}

function asOpenItem(frame: FrameDraft<'output_item.added'>): OpenItem {
  const { response_id, output_index, item_id, item_type } = frame
  return { ...(response_id === undefined ? {} : { response_id }), output_index, item_id, item_type }
}
