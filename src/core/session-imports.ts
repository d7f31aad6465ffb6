import type { SessionEntry, SessionHead, SessionImport } from '../protocol/api/agent-sessions.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import type { ConversationId, RunId } from '../protocol/ids.ts'

/** Imports the sessions of other agents. Importing one again adds the entries that are new. */
export interface SessionImports {
  run(command: {
    tenant: string
    by: string
    head: SessionHead
    entries: AsyncIterable<SessionEntry>
  }): Promise<SessionImport>
}

/** Frames with the times that their entries have. */
export interface ImportedFrames {
  /** Null for frames outside a run. */
  runId: RunId | null
  timestamp: string
  frames: FrameDraft[]
}

export interface ImportedBatch {
  tenant: string
  conversationId: ConversationId
  /** The last event of the line, which nothing may have changed since. */
  after: number
  /** Whole runs, each from its first frame to its terminal one. */
  parts: readonly ImportedFrames[]
}

/** Appends a batch in one transaction, or refuses it if the line has other events by now. */
export type AppendImported = (batch: ImportedBatch) => Promise<{ lastSeq: number }>
