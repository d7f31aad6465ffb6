/** What the ledger itself needs to know of frames. Apart from frames.ts, so that its threads need not load the schemas. */

export const FRAME_SCHEMA = 'public_sse_v1'

const terminalKinds: ReadonlySet<string> = new Set(['final', 'error'])

export function isTerminalKind(kind: string): boolean {
  return terminalKinds.has(kind)
}
