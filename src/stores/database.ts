import { WaymarkError } from '../protocol/errors.ts'
import type { Change, Engine, Outcome } from './engine.ts'
import type { AppendOutcome, AppendRequest } from './sql/lines/append.ts'
import { ANY } from './sql/operation.ts'
import {
  isAlone,
  lineChangedBy,
  OVER_BUDGET,
  queueChangedBy,
  type ReadArgument,
  type ReadName,
  type ReadResult,
  type WriteArgument,
  type WriteCall,
  type WriteName,
  type WriteResult,
} from './sql/operations.ts'
import type { Refusal } from './sql/refusal.ts'

/** A transaction takes no more than this, so that its first write need not wait for all the others. */
const MAX_GROUP_CHARACTERS = 4 * 1024 * 1024

/**
 * The one way to call the engine. Writes that arrive while a transaction is in flight share the next one (group commit).
 * A failure of the engine becomes `storage_failed` (L3); a script's refusal becomes an error with its code.
 */
export interface Database {
  read<K extends ReadName>(name: K, argument: ReadArgument<K>): Promise<Accepted<ReadResult<K>>>
  /** Until `onStart` is called, right before the transaction, the argument may still change. */
  write<K extends WriteName>(
    name: K,
    argument: SentArgument<K>,
    onStart?: () => void,
  ): Promise<Accepted<SentResult<K>>>
  /** Calls the listener after each commit, of this process or another, for every line and queue that it changed. */
  onChange(listener: (change: Change) => void): void
  /** Waits for the writes in flight, then closes the engine. */
  close(): Promise<void>
}

export type Accepted<T> = Exclude<T, Refusal>

/** A script appends a list of requests, those of a group; each is sent by itself. */
type SentArgument<K extends WriteName> = K extends 'append' ? AppendRequest : WriteArgument<K>
type SentResult<K extends WriteName> = K extends 'append' ? AppendOutcome : WriteResult<K>

export interface CommittedGroup {
  frames: number
  seconds: number
  /** Frames that mark an outcome, for metrics. */
  marks: { kind: string; text: string }[]
  /** How many requests to the model have begun. */
  modelCalls: number
}

interface Pending extends WriteCall {
  onStart?: (() => void) | undefined
  settle(outcome: Outcome): void
}

export function createDatabase(deps: {
  engine: Engine
  onCommitted?: (group: CommittedGroup) => void
}): Database {
  const { engine } = deps
  const listeners: ((change: Change) => void)[] = []
  const waiting: Pending[] = []
  const inFlight = new Set<Promise<void>>()
  let isStarting = false
  engine.onForeignChange(announce)

  function announce(change: Change): void {
    for (const listener of listeners) listener(change)
  }

  /**
   * Stores the writes that wait, or one that can't share a transaction. Two groups may be in flight, so that the engine has
   * the next one when it has stored the first.
   */
  async function commit(alone?: Pending): Promise<void> {
    isStarting = false
    const hasRoom = inFlight.size < engine.groupsInFlight
    const group = alone ? [alone] : hasRoom ? waiting.splice(0, groupLength(waiting)) : []
    if (group.length === 0) return
    for (const one of group) one.onStart?.()
    const done = Promise.withResolvers<void>()
    if (!alone) inFlight.add(done.promise)
    if (waiting.length > 0) void commit()
    const started = performance.now()
    const outcomes = await engine
      .write(group)
      .catch((error: unknown) => group.map(() => ({ error: error as Error })))
    noteCommitted(group, outcomes, (performance.now() - started) / 1000)
    for (const [index, one] of group.entries()) {
      one.settle(outcomes[index] ?? { error: new Error('the write has no outcome') })
    }
    for (const change of changesIn(group, outcomes)) announce(change)
    inFlight.delete(done.promise)
    done.resolve()
    void commit()
  }

  function noteCommitted(group: readonly Pending[], outcomes: readonly Outcome[], seconds: number): void {
    if (!deps.onCommitted) return
    const marks = group.flatMap((one, index) => marksIn(one, outcomes[index]))
    const modelCalls = group.filter((one) => one.name === 'beginResponse').length
    deps.onCommitted({ frames: countFrames(outcomes, group), seconds, marks, modelCalls })
  }

  return {
    async read(name, argument) {
      return accepted(
        await engine.read(name, argument).catch((error: unknown) => {
          throw asFailure(error as Error, 'read')
        }),
      )
    },
    write(name, argument, onStart) {
      const { promise, resolve, reject } = Promise.withResolvers<Accepted<SentResult<typeof name>>>()
      const pending: Pending = {
        name,
        argument,
        onStart,
        settle(outcome) {
          if ('error' in outcome) reject(asFailure(outcome.error, 'write'))
          else if (isRefusal(outcome.result)) reject(asError(outcome.result))
          else resolve(outcome.result as Accepted<SentResult<typeof name>>)
        },
      }
      if (isAlone(pending)) void commit(pending)
      else waiting.push(pending)
      // Writes of the same turn join the group, for example the frames of a provider's packet.
      if (!isStarting) setImmediate(() => void commit())
      isStarting = true
      return promise
    },
    onChange: (listener) => {
      listeners.push(listener)
    },
    async close() {
      while (inFlight.size > 0 || waiting.length > 0) {
        void commit()
        await Promise.allSettled(inFlight)
      }
      await engine.close()
    },
  }
}

function accepted<T>(result: T): Accepted<T> {
  if (isRefusal(result)) throw asError(result)
  return result as Accepted<T>
}

function asError({ refused, why }: Refusal): WaymarkError {
  return new WaymarkError(refused, why)
}

function isRefusal(result: unknown): result is Refusal {
  return typeof result === 'object' && result !== null && 'refused' in result
}

function asFailure(cause: Error, what: 'read' | 'write'): WaymarkError {
  if (cause.message === OVER_BUDGET) {
    const advice = 'That took longer than 10 seconds. Search for something rarer.'
    return new WaymarkError('too_slow', advice, { cause })
  }
  return new WaymarkError('storage_failed', `The ${what} failed: ${cause.message}`, { cause })
}

function changesIn(group: readonly WriteCall[], outcomes: readonly Outcome[]): Change[] {
  const lines = new Set<string>()
  const queues = new Set<string>()
  for (const [index, call] of group.entries()) {
    const outcome = outcomes[index]
    const line = lineChangedBy(call)
    const queue = queueChangedBy(call, outcome && 'result' in outcome ? outcome.result : null)
    if (line !== null) lines.add(line)
    if (queue !== null) queues.add(queue)
  }
  return [
    ...[...lines].map((conversationId): Change => ({ what: 'line', conversationId })),
    ...[...queues].map((id): Change => ({ what: 'queue', conversationId: id === ANY ? null : id })),
  ]
}

function groupLength(waiting: readonly Pending[]): number {
  let size = 0
  const end = waiting.findIndex((one, index) => {
    size += characters(one)
    return index > 0 && size > MAX_GROUP_CHARACTERS
  })
  return end < 0 ? waiting.length : end
}

function characters({ name, argument }: WriteCall): number {
  if (name !== 'append') return 0
  return (argument as AppendRequest).drafts.reduce((sum, draft) => sum + draft.text.length, 0)
}

const markKinds = new Set([
  'final',
  'error',
  'workspace.checkpoint',
  'workspace.restored',
  'session.reset',
  'session.approved',
])

function marksIn(
  { name, argument }: WriteCall,
  outcome: Outcome | undefined,
): { kind: string; text: string }[] {
  if (!outcome || 'error' in outcome) return []
  const isStored = name !== 'append' || (outcome.result as AppendOutcome).ok
  const request =
    name === 'append'
      ? (argument as AppendRequest)
      : (argument as { request?: AppendRequest } | null)?.request
  const drafts = isStored && request && 'drafts' in request ? request.drafts : []
  return drafts.filter((draft) => markKinds.has(draft.kind)).map(({ kind, text }) => ({ kind, text }))
}

/** How many frames the group has stored. */
function countFrames(outcomes: readonly Outcome[], group: readonly WriteCall[]): number {
  return outcomes.reduce((sum, outcome, index) => {
    if (group[index]?.name !== 'append' || 'error' in outcome) return sum
    const result = outcome.result as AppendOutcome
    return result.ok ? sum + result.lastSeq - result.firstSeq + 1 : sum
  }, 0)
}
