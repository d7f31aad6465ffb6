import type { AnyFrame, Frame } from './frames.ts'

/** What one needs to know of frames without their schemas: the ledger's threads and the page in the browser do not load those. */

export const FRAME_SCHEMA = 'public_sse_v1'

/** A kind's name lasts for ever. */
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

export function isKnownFrame(frame: AnyFrame): frame is Frame {
  return isKnownKind(frame.kind)
}
