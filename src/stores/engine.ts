import type { ReadArgument, ReadName, ReadResult, WriteName } from './sql/operations.ts'

/** A database that runs scripts. */
export interface Engine {
  read<K extends ReadName>(name: K, argument: ReadArgument<K>): Promise<ReadResult<K>>
  /**
   * Runs the writes in one transaction and answers when they are durable. Groups are worked off in the order of the
   * calls. A group that fails is retried one write at a time, so that one write's error affects no other.
   */
  write(group: readonly Write[]): Promise<Outcome[]>
  /** One process at a time uses the database, so whatever it does not do itself has not happened. */
  isSingleProcess: boolean
  /** How many groups may be handed over before the first is answered. */
  groupsInFlight: number
  /** Hears what another process changed. */
  onForeignChange(listener: (change: Change) => void): void
  /** Writes the database as it is at one moment into a folder, while others work on it. */
  backup(folder: string): Promise<void>
  /** Fills an empty database with what `backup` wrote. */
  restore(folder: string): Promise<void>
  close(): Promise<void>
}

/** A conversation's ledger or queue has changed; null means that any may have. */
export interface Change {
  what: 'ledger' | 'queue' | 'anything'
  conversationId: string | null
}

export interface Write {
  name: WriteName
  argument: unknown
  /** The conversation whose readers this concerns. */
  conversationId: string | null
  /** The conversation whose queue this changes. */
  queueOf?: string | null
  /** A conversation that it locks without changing it for readers. */
  locks?: string | null
}

export type Outcome = { result: unknown } | { error: Error }
