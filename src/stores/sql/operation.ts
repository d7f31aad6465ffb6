import type { Dialect } from './dialect.ts'
import type { Script } from './script.ts'

/** An operation on the store: its script, and what its callers need to know about it. */
export interface Read<A, R> extends ReadTraits<A> {
  script(dialect: Dialect, argument: A): Script<R>
}

export interface ReadTraits<A> {
  /** It may grow with the whole store, so it gets a lane of its own: no page waits for it. */
  isSlow?: true | ((argument: A) => boolean)
  /** A person waits for it: it fails when it takes longer than READ_BUDGET_MS. */
  hasBudget?: true
}

export interface Write<A, R> extends WriteTraits<A, R> {
  script(dialect: Dialect, argument: A): Script<R>
}

export interface WriteTraits<A, R> {
  /** It never moves a head, so a single writer keeps its cached heads across it. */
  keepsHeads?: true
  /** It runs in a transaction of its own instead of joining the appends: it locks nothing while they are stored. */
  isAlone?: true
  /** It may be sent again when it is not known whether it was stored: the second time changes nothing. */
  isRepeatable?: true
  /** The conversation whose line it changes. */
  changesLine?(argument: A): string | null
  /** The conversation whose queue it changes; ANY when that may be several. */
  changesQueue?(argument: A, result: R): string | null
  /** A conversation that it locks without changing it for readers. */
  locks?(argument: A): string | null
}

export const ANY = '*'

export function read<A, R>(
  script: (dialect: Dialect, argument: A) => Script<R>,
  traits: ReadTraits<A> = {},
): Read<A, R> {
  return { script, ...traits }
}

export function write<A, R>(
  script: (dialect: Dialect, argument: A) => Script<R>,
  traits: WriteTraits<A, R> = {},
): Write<A, R> {
  return { script, ...traits }
}
