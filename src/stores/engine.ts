import type { ReadArgument, ReadName, ReadResult, WriteCall } from './sql/operations.ts'

/** A database that runs scripts. */
export interface Engine {
  read<K extends ReadName>(name: K, argument: ReadArgument<K>): Promise<ReadResult<K>>
  /**
   * Runs the writes in one transaction and answers when they are durable. Groups run in the order of the calls. A group
   * that fails is retried one write at a time, so that one write's error affects no other.
   */
  write(group: readonly WriteCall[]): Promise<Outcome[]>
  /** Only this process uses the database, so it knows of every change. */
  isSingleProcess: boolean
  /** How many groups may be sent before the first is answered. */
  groupsInFlight: number
  /** Calls the listener for changes made by other processes. */
  onForeignChange(listener: (change: Change) => void): void
  /** Writes a consistent snapshot of the database to a folder; other work continues meanwhile. */
  backup(folder: string): Promise<void>
  /** Restores a snapshot written by `backup` into an empty database. */
  restore(folder: string): Promise<void>
  close(): Promise<void>
}

/** A conversation's line or queue has changed; null means that any may have. */
export interface Change {
  what: 'line' | 'queue' | 'anything'
  conversationId: string | null
}

export type Outcome = { result: unknown } | { error: Error }
