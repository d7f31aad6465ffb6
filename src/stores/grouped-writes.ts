import { isTerminalKind } from '../protocol/frame-kinds.ts'
import type { Engine, Outcome, Write } from './engine.ts'
import type { AppendOutcome, AppendRequest } from './sql/append.ts'
import type { WriteArgument, WriteName, WriteResult } from './sql/operations.ts'

/** A transaction takes no more than this, so that the first in it need not wait for all the others. */
const MAX_GROUP_CHARACTERS = 4 * 1024 * 1024

export interface GroupedWrites {
  write<K extends WriteName>(
    name: K,
    argument: WriteArgument<K>,
    conversationId: string | null,
    more?: Pick<Write, 'queueOf' | 'locks'>,
  ): Promise<WriteResult<K>>
  append(request: AppendRequest): Promise<AppendOutcome>
  /** Tells after each commit whose ledgers and whose queues it changed. */
  onChanged(listener: (changed: Changed) => void): void
  /** Resolves when nothing is under way any more. */
  idle(): Promise<void>
}

export interface Changed {
  conversations: ReadonlySet<string>
  queues: ReadonlySet<string>
}

export interface CommittedGroup {
  frames: number
  seconds: number
  /** Frames that say that something has ended or was done, for counting. */
  marks: { kind: string; text: string }[]
  /** How many requests to the model have begun. */
  modelCalls: number
}

interface Pending extends Write {
  characters: number
  settle(outcome: Outcome): void
}

/** Appends of one run within a millisecond, sent as one: each caller gets its own part of the outcome. */
interface PendingAppend extends Pending {
  argument: AppendRequest
  callers: { frames: number; resolve(outcome: AppendOutcome): void; reject(error: Error): void }[]
}

/** Group commit: what arrives while a transaction is under way goes into the next one together. */
export function createGroupedWrites(deps: {
  engine: Engine
  onCommitted?: (group: CommittedGroup) => void
}): GroupedWrites {
  const { engine } = deps
  const listeners: ((changed: Changed) => void)[] = []
  const waiting: Pending[] = []
  const underWay = new Set<Promise<void>>()
  let starting = false
  let joinable: PendingAppend | null = null

  function enqueue(pending: Pending): void {
    waiting.push(pending)
    if (starting) return
    starting = true
    // What else this tick brings comes along.
    queueMicrotask(start)
  }

  function start(): void {
    starting = false
    while (waiting.length > 0 && underWay.size < engine.groupsInFlight) {
      joinable = null
      const commit = commitGroup(waiting.splice(0, groupLength(waiting))).finally(() => {
        underWay.delete(commit)
        start()
      })
      underWay.add(commit)
    }
  }

  async function commitGroup(group: readonly Pending[]): Promise<void> {
    const started = performance.now()
    const writes = group.map(asWrite)
    const outcomes = await engine
      .write(writes)
      .catch((error: unknown) => writes.map(() => ({ error: error as Error })))
    const seconds = (performance.now() - started) / 1000
    if (deps.onCommitted) {
      const marks = group.flatMap((one, index) => marksIn(one, outcomes[index]))
      const modelCalls = group.filter((one) => one.name === 'beginResponse').length
      deps.onCommitted({ frames: countFrames(outcomes, group), seconds, marks, modelCalls })
    }
    for (const [index, one] of group.entries()) {
      one.settle(outcomes[index] ?? { error: new Error('the write has no outcome') })
    }
    const changed = {
      conversations: new Set(writes.flatMap((one) => one.conversationId ?? [])),
      queues: new Set(writes.flatMap((one) => one.queueOf ?? [])),
    }
    for (const listener of listeners) listener(changed)
  }

  return {
    write: (name, argument, conversationId, more = {}) =>
      new Promise((resolve, reject) => {
        joinable = null
        const settle = (outcome: Outcome) =>
          'error' in outcome ? reject(outcome.error) : resolve(outcome.result as WriteResult<typeof name>)
        enqueue({ name, argument, conversationId, ...more, characters: 0, settle })
      }),
    append: (request) =>
      new Promise((resolve, reject) => {
        const caller = { frames: request.drafts.length, resolve, reject }
        if (joinable && mayJoin(joinable, request)) {
          joinable.argument.drafts.push(...request.drafts)
          joinable.characters += characters(request)
          joinable.callers.push(caller)
        } else {
          joinable = pendingAppend(request, caller)
          enqueue(joinable)
        }
      }),
    onChanged: (listener) => {
      listeners.push(listener)
    },
    async idle() {
      while (underWay.size > 0 || waiting.length > 0) await Promise.allSettled(underWay)
    },
  }
}

function asWrite({ name, argument, conversationId, queueOf = null, locks = null }: Pending): Write {
  const isEnd = name === 'append' && isTerminalKind((argument as AppendRequest).drafts.at(-1)?.kind ?? '')
  return { name, argument, conversationId, queueOf: isEnd ? conversationId : queueOf, locks }
}

function pendingAppend(request: AppendRequest, caller: PendingAppend['callers'][number]): PendingAppend {
  const callers = [caller]
  return {
    name: 'append',
    argument: { ...request, drafts: [...request.drafts] },
    conversationId: request.conversationId,
    characters: characters(request),
    callers,
    settle(outcome) {
      if ('error' in outcome) return callers.forEach((one) => one.reject(outcome.error))
      const whole = outcome.result as AppendOutcome
      let firstSeq = whole.ok ? whole.firstSeq : 0
      for (const one of callers) {
        one.resolve(whole.ok ? { ...whole, firstSeq, lastSeq: firstSeq + one.frames - 1 } : whole)
        firstSeq += one.frames
      }
    },
  }
}

/** Nothing joins an append that ends in a terminal frame: a later append must be refused on its own (L5). */
function mayJoin({ argument: last, characters }: PendingAppend, request: AppendRequest): boolean {
  return (
    last.conversationId === request.conversationId &&
    last.runId === request.runId &&
    last.epoch === request.epoch &&
    last.timestamp === request.timestamp &&
    last.tenant === request.tenant &&
    characters < MAX_GROUP_CHARACTERS &&
    // An append that does not follow directly states so itself: one in between may have failed (L3).
    (request.runId === null || last.after + last.drafts.length === request.after) &&
    !isTerminalKind(last.drafts.at(-1)?.kind ?? '')
  )
}

function groupLength(waiting: readonly Pending[]): number {
  let size = 0
  const end = waiting.findIndex((one, index) => {
    size += one.characters
    return index > 0 && size > MAX_GROUP_CHARACTERS
  })
  return end < 0 ? waiting.length : end
}

function characters(request: AppendRequest): number {
  return request.drafts.reduce((sum, draft) => sum + draft.text.length, 0)
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
  { name, argument }: Pending,
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
function countFrames(outcomes: readonly Outcome[], group: readonly Pending[]): number {
  return outcomes.reduce((sum, outcome, index) => {
    if (group[index]?.name !== 'append' || 'error' in outcome) return sum
    const result = outcome.result as AppendOutcome
    return result.ok ? sum + result.lastSeq - result.firstSeq + 1 : sum
  }, 0)
}
