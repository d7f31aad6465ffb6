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
  'files.committed',
  'rule.created',
  'rule.removed',
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

/** Counts of what a collection removed. */
export interface Removed {
  events: number
  /** Total size of their frames. */
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
  /** The tenant whose audit log records it; null for all tenants. */
  of: string | null
  /** Only reports what would be removed. */
  isDryRun?: boolean
  /** Skips the retention time, for this tenant's deletions. */
  now?: boolean
}

/** Removes events that no line reaches (D3). Safe alongside all other work, and when killed. */
export interface Collecting {
  collect(command: CollectCommand): Promise<CollectionReport>
}

/**
 * The collector's access to the store. Once a line has expired it can't be restored, and events that no line reaches
 * then stay unreachable. So any process may remove them in small steps while everything else continues.
 */
export interface CollectionStore {
  /** Expires lines left and conversations deleted before this time, for one tenant or for all. */
  expire(before: number, tenant: string | null): Promise<void>
  /** Events that no line would reach after such an expiry. */
  unreachable(before: number, tenant: string | null, limit: number): Promise<Unreachable[]>
  /** Removes some of the events, from the end; returns what was removed and whether that was all. */
  collect(part: Unreachable): Promise<{ removed: Removed; isDone: boolean }>
  /** Removes the remains of expired conversations, and keys and tokens that expired before this time. */
  sweep(before: number): Promise<Swept>
  /** Those of these blobs that nothing refers to. */
  unreferenced(keys: readonly string[]): Promise<string[]>
  /** How many checkpoints were ever removed. When it has grown, files that only they had can be removed. */
  checkpointsRemoved(): Promise<number>

  note(entry: Pick<AuditEntry, 'by' | 'details'> & { tenant: string | null }): Promise<void>
  audit(query: {
    tenant: string
    limit: number
    before: number | null
  }): Promise<{ items: AuditEntry[]; next: number | null }>
}
