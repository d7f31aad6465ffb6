import type { Turn } from '../core/agent.ts'
import { type Grant, isAllowedBy, noGrant, type Question, type Rules } from '../core/questions.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { parseCopyWorkspaceId } from '../protocol/ids.ts'
import type { FunctionCall } from './provider/mapping.ts'

/** Questions to people, and the rules that answer instead of them. */

export type PlacedCall = Pick<FunctionCall, 'callId' | 'name' | 'responseId' | 'outputIndex' | 'itemId'>

/** The grant of a rule that allows exactly this call; null when there is none. */
export async function allowedByRule(
  rules: Pick<Rules, 'find'>,
  question: Question,
  call: PlacedCall,
  turn: Turn,
): Promise<Grant | null> {
  const { approval, questionSha256 } = turn.record.call(call.callId) ?? {}
  if (approval && questionSha256 === question.sha256) return null
  const { tenant, conversationId, workspaceId: place, mayChangeFiles } = turn
  // Rules are made by people who may change files, and apply only to callers who may.
  if (!mayChangeFiles) return null
  const workspaceId = parseCopyWorkspaceId(place)?.workspaceId ?? place
  const { toolName, subject, sha256 } = question
  const rule = await rules.find({ tenant, workspaceId, conversationId, toolName, subject })
  if (!rule || !isAllowedBy(rule, question)) return null
  const fields = { status: 'approved' as const, by: rule.by, grant: rule.grant, rule_id: rule.id }
  turn.writer.write(
    approvalFrame(call, { ...fields, question_sha256: sha256, ...confinementFields(question) }),
  )
  return rule.grant
}

/** Asks a person, unless this very question was answered before a restart. */
export async function askPerson(
  question: Question,
  call: PlacedCall,
  turn: Turn,
): Promise<{ approved: boolean; reason: string | null; grant: Grant; optionId: string | null }> {
  const { record, writer } = turn
  const known = record.call(call.callId)
  // An answer to another question does not count: the call may now run differently from what was shown then.
  const isSame = (known?.questionSha256 ?? question.sha256) === question.sha256
  const before = isSame ? (known?.approval ?? null) : null
  if (before === 'approved' || before === 'denied') {
    return { approved: before === 'approved', reason: null, grant: known?.grant ?? noGrant, optionId: null }
  }
  await turn.ask(call.callId, question)
  const asked = { question_sha256: question.sha256, ...confinementFields(question) }
  const offered = question.options === undefined ? {} : { options: [...question.options] }
  if (before === null) writer.write(approvalFrame(call, { status: 'requested', ...asked, ...offered }))
  await writer.flush()
  const { approved, reason, by, grant, optionId } = await turn.answerTo(call.callId)
  const status = approved ? 'approved' : 'denied'
  const given = {
    ...(reason === null ? {} : { reason }),
    ...(approved && question.confinement ? { grant } : {}),
    ...(optionId === null ? {} : { option_id: optionId }),
  }
  writer.write(approvalFrame(call, { status, by, ...given }))
  return { approved, reason, grant, optionId }
}

export function callFields(call: PlacedCall) {
  return {
    response_id: call.responseId,
    output_index: call.outputIndex,
    item_id: call.itemId,
    tool_call_id: call.callId,
  }
}

export function approvalFrame(
  call: PlacedCall,
  fields: Pick<
    FrameDraft<'tool.approval'>,
    | 'status'
    | 'by'
    | 'reason'
    | 'question_sha256'
    | 'confinement'
    | 'grant'
    | 'rule_id'
    | 'options'
    | 'option_id'
  >,
): FrameDraft<'tool.approval'> {
  return { kind: 'tool.approval', ...callFields(call), tool_name: call.name, ...fields }
}

function confinementFields({ confinement }: Question): Pick<FrameDraft<'tool.approval'>, 'confinement'> {
  if (!confinement) return {}
  const { sandbox, network, wantsNetwork: wants_network } = confinement
  return { confinement: { sandbox, network, wants_network } }
}
