/** Frame kinds without their schemas, which the ledger's threads and the browser page do not load. */

export const FRAME_SCHEMA = 'public_sse_v1'

/** A kind's name never changes. */
export const frameKinds = [
  'conversation.created',
  'conversation.forked',
  'conversation.truncated',
  'conversation.retitled',
  'message.user',
  'lifecycle',
  'final',
  'error',
  'agent.updated',
  'output_item.added',
  'output_item.done',
  'message.delta',
  'message.citation',
  'reasoning_summary.part.added',
  'reasoning_summary.delta',
  'reasoning_summary.part.done',
  'refusal.delta',
  'refusal.done',
  'tool.status',
  'tool.arguments.delta',
  'tool.arguments.done',
  'tool.code.delta',
  'tool.code.done',
  'tool.output',
  'tool.approval',
  'chunk.delta',
  'chunk.done',
  'workspace.checkpoint',
  'file.edit',
  'workspace.restored',
  'session.approved',
  'session.reset',
  'memory.checkpoint',
  'agent.checkpoint',
  'import.session',
  'import.entry',
] as const

export type FrameKind = (typeof frameKinds)[number]

const knownKinds: ReadonlySet<string> = new Set(frameKinds)
const terminalKinds: ReadonlySet<string> = new Set(['final', 'error'])

export function isTerminalKind(kind: string): boolean {
  return terminalKinds.has(kind)
}

export function isKnownKind(kind: string): kind is FrameKind {
  return knownKinds.has(kind)
}

/** The message of `session.approved` when undo or redo made an earlier approval the approved state again. */
export const APPROVED_AGAIN = 'Approved again'
