import type { CollectionReport } from '../protocol/api/upkeep.ts'

/** Deleted events leave their line at once, and the store when the deletion can no longer be undone (D3, D4). */

export const HOUR_MS = 60 * 60 * 1000

export const auditActions = [
  'message.deleted',
  'message.undeleted',
  'conversation.deleted',
  'conversation.undeleted',
  'collected',
  'conversation.imported',
] as const
export type AuditAction = (typeof auditActions)[number]

export interface AuditEntry {
  no: number
  at: string
  by: string
  action: AuditAction
  conversationId: string | null
  details: Record<string, unknown>
}

/** Events of one segment that no line reaches: all after `keepTo`. */
export interface Unreachable {
  segment: number
  keepTo: number
  events: number
  bytes: number
  messages: number
  checkpoints: number
}

/** How much of each was removed. */
export interface Removed {
  events: number
  /** Of their frames. */
  bytes: number
  messages: number
  checkpoints: number
  agent_states: number
  runs: number
}

export interface Swept {
  conversations: number
  idempotency_keys: number
  tokens: number
}

export interface CollectCommand {
  by: string
  /** Whose record it goes into; null for everybody's. */
  of: string | null
  /** Only looks. */
  isDryRun?: boolean
  /** Does not wait for the retention time, for the deletions of that tenant. */
  now?: boolean
}

/** Removes what no line reaches any more (D3): safe while everything else goes on, and when it is killed. */
export interface Collecting {
  collect(command: CollectCommand): Promise<CollectionReport>
}

/**
 * What the collector needs of the store. Once something has expired it can't be brought back, and nothing that no line
 * reaches then can ever be reached again: so it may be removed bit by bit, by anybody, while everything else goes on.
 */
export interface CollectionStore {
  /** What was left or deleted before this time can't be brought back any more; of all tenants, or of one. */
  expire(before: number, tenant: string | null): Promise<void>
  /** What no line reaches, as if that had expired. */
  unreachable(before: number, tenant: string | null, limit: number): Promise<Unreachable[]>
  /** Removes some of it, from the end; answers how much, and whether that was all. */
  collect(part: Unreachable): Promise<{ removed: Removed; isDone: boolean }>
  /** Removes what is left of expired conversations, and keys and tokens that are over since this time. */
  sweep(before: number): Promise<Swept>
  /** Which of these blobs nothing refers to. */
  unreferenced(keys: readonly string[]): Promise<string[]>
  /** How many checkpoints have ever been removed: when it has grown, files that only they had can go. */
  checkpointsRemoved(): Promise<number>

  note(entry: Pick<AuditEntry, 'by' | 'details'> & { tenant: string | null }): Promise<void>
  audit(query: {
    tenant: string
    limit: number
    before: number | null
  }): Promise<{ items: AuditEntry[]; next: number | null }>
}
