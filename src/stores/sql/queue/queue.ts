import { sql } from 'kysely'
import { timestamp } from '../../../core/clock.ts'
import { type Grant, isAllowing, noGrant, type Question, ruleSubjects } from '../../../core/questions.ts'
import type {
  Accepted,
  AnswerCommand,
  CancelCommand,
  EditQueuedCommand,
  EnqueueCommand,
  MessageExtras,
  QueueState,
  Signals,
  WaitingMessage,
} from '../../../core/queue.ts'
import { refuseEnqueue } from '../../../core/queue.ts'
import { type ConversationId, parseCopyWorkspaceId, type RunId } from '../../../protocol/ids.ts'
import { repeatedAnswer, storeAnswer } from '../conversations/idempotency.ts'
import type { Dialect } from '../dialect.ts'
import { findHead } from '../lines/line.ts'
import { lockConversations } from '../lock.ts'
import { noConversation, type Refusable, type Refusal } from '../refusal.ts'
import { ABANDONED, RUNNING } from '../schema.ts'
import { all, first, type Script } from '../script.ts'
import { putRule } from './rules.ts'

const noRun = {
  refused: 'run_not_found',
  why: 'There is no such run in the queue.',
} as const satisfies Refusal

export function* enqueue(
  dialect: Dialect,
  command: EnqueueCommand & { now: number },
): Script<Refusable<Accepted>> {
  const { db } = dialect
  const { tenant, conversationId, runId, messageId, content, idempotency, now } = command
  const head = yield* findHead(dialect, tenant, conversationId, 'change')
  if (!head) return noConversation
  const earlier = yield* repeatedAnswer<Accepted>(dialect, tenant, idempotency)
  if (earlier) return 'refused' in earlier ? earlier : { ...earlier, repeated: true }
  const position = (yield* runsOf(dialect, conversationId)).length
  const refusal = refuseEnqueue(position)
  if (refusal) return refusal
  const row = yield* first(
    db.selectFrom('conversations').select('workspace_id').where('id', '=', conversationId),
  )
  yield* all(
    db.insertInto('queue').values({
      run_id: runId,
      conversation_id: conversationId,
      tenant_id: tenant,
      workspace_id: row?.workspace_id ?? null,
      message_id: messageId,
      content,
      extras: command.extras ? JSON.stringify(command.extras) : null,
      may_change_files: command.mayChangeFiles ? 1 : 0,
      state: 'waiting',
      worker: command.reserve?.worker ?? null,
      lease_until: command.reserve ? leaseEnd(dialect, command.reserve.leaseMs) : null,
      cancelled_by: null,
      created_at: timestamp(now),
      started_at: null,
    }),
  )
  const accepted = { messageId, runId, position }
  yield* storeAnswer(dialect, { tenant, idempotency, now }, accepted)
  return { ...accepted, repeated: false }
}

/** By the database's clock, which all workers share. */
export function leaseEnd({ nowMs }: Dialect, leaseMs: number) {
  return sql<number>`${nowMs} + cast(${leaseMs} as bigint)`
}

export function* readQueue(
  dialect: Dialect,
  query: { tenant: string; conversationId: ConversationId },
): Script<Refusable<QueueState>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  const rows = yield* runsOf(dialect, query.conversationId)
  const active = rows.find((row) => row.state === 'active')
  return {
    active: active
      ? { runId: active.run_id, messageId: active.message_id, startedAt: active.started_at ?? '' }
      : null,
    waiting: rows.filter((row) => row.state === 'waiting').map(asWaiting),
  }
}

export function* queueDepths({ db }: Dialect, _none: null): Script<{ waiting: number; active: number }> {
  const rows = yield* all(
    db
      .selectFrom('queue')
      .select(['state', sql<number>`count(*)`.as('count')])
      .groupBy('state'),
  )
  const of = (state: string) => rows.find((row) => row.state === state)?.count ?? 0
  return { waiting: of('waiting'), active: of('active') }
}

export function* removeQueued(
  dialect: Dialect,
  command: { tenant: string; conversationId: ConversationId; runId: RunId },
): Script<Refusable<{ done: true }>> {
  const head = yield* findHead(dialect, command.tenant, command.conversationId, 'change')
  if (!head) return noConversation
  const removed = yield* all(
    dialect.db
      .deleteFrom('queue')
      .where('run_id', '=', command.runId)
      .where('conversation_id', '=', command.conversationId)
      .where('state', '=', 'waiting')
      .returning('run_id'),
  )
  return removed.length > 0 ? { done: true } : noRun
}

export function* editQueued(dialect: Dialect, command: EditQueuedCommand): Script<Refusable<{ done: true }>> {
  const { db } = dialect
  const { conversationId, runId, content, position } = command
  const head = yield* findHead(dialect, command.tenant, conversationId, 'change')
  if (!head) return noConversation
  const waiting = yield* all(
    db
      .selectFrom('queue')
      .selectAll()
      .where('conversation_id', '=', conversationId)
      .where('state', '=', 'waiting')
      .orderBy('place'),
  )
  const found = waiting.find((row) => row.run_id === runId)
  if (!found) return noRun
  if (content !== undefined) {
    yield* all(db.updateTable('queue').set({ content }).where('run_id', '=', runId))
  }
  if (position === undefined) return { done: true }
  const others = waiting.filter((row) => row !== found)
  const at = Math.max(0, Math.min(position - 1, others.length))
  const ordered = others.toSpliced(at, 0, { ...found, content: content ?? found.content })
  // Reinsert the rows: the database assigns places in insertion order.
  yield* all(
    db.deleteFrom('queue').where('conversation_id', '=', conversationId).where('state', '=', 'waiting'),
  )
  for (const { place: _place, ...row } of ordered) yield* all(db.insertInto('queue').values(row))
  return { done: true }
}

export function* cancelRun(
  dialect: Dialect,
  command: CancelCommand & { runId: RunId },
): Script<Refusable<{ done: true }>> {
  const head = yield* findHead(dialect, command.tenant, command.conversationId, 'change')
  if (!head) return noConversation
  const run = (yield* runsOf(dialect, command.conversationId)).find((row) => row.run_id === command.runId)
  if (!run) return noRun
  if (run.state === 'waiting') return yield* removeQueued(dialect, command)
  yield* markCancelled(dialect, run.run_id, command.by)
  return { done: true }
}

export function* stopCurrent(
  dialect: Dialect,
  command: CancelCommand,
): Script<Refusable<{ runId: RunId | null }>> {
  const head = yield* findHead(dialect, command.tenant, command.conversationId, 'change')
  if (!head) return noConversation
  // Stop also cancels a queued message that no worker has claimed.
  const [current] = yield* runsOf(dialect, command.conversationId)
  if (!current) return { runId: null }
  yield* markCancelled(dialect, current.run_id, command.by)
  return { runId: current.run_id as RunId }
}

/** Repeating a question changes nothing; a different question for the call replaces the old one and its answer. */
export function* ask(
  { db }: Dialect,
  command: { runId: RunId; toolCallId: string; question: Question },
): Script<{ done: true }> {
  const question = JSON.stringify(command.question)
  const unanswered = { approved: null, reason: null, answered_by: null, question, grants: null }
  yield* all(
    db
      .insertInto('asks')
      .values({ run_id: command.runId, tool_call_id: command.toolCallId, ...unanswered })
      .onConflict((conflict) =>
        conflict
          .columns(['run_id', 'tool_call_id'])
          .doUpdateSet(unanswered)
          .where((where) =>
            where.or([where('asks.question', 'is', null), where('asks.question', '!=', question)]),
          ),
      ),
  )
  return { done: true }
}

/** Returns the question that a call waits on; refuses when the call isn't waiting. */
export function* readQuestion(
  dialect: Dialect,
  query: { tenant: string; conversationId: ConversationId; runId: RunId; toolCallId: string },
): Script<Refusable<{ question: Question }>> {
  const head = yield* findHead(dialect, query.tenant, query.conversationId, 'read')
  if (!head) return noConversation
  const run = (yield* runsOf(dialect, query.conversationId)).find((row) => row.run_id === query.runId)
  if (!run) return noRun
  return yield* pendingQuestion(dialect, query)
}

function* pendingQuestion(
  { db }: Dialect,
  { runId, toolCallId }: { runId: RunId; toolCallId: string },
): Script<Refusable<{ question: Question }>> {
  const row = yield* first(
    db
      .selectFrom('asks')
      .select('question')
      .where('run_id', '=', runId)
      .where('tool_call_id', '=', toolCallId)
      .where('approved', 'is', null),
  )
  return row?.question ? { question: JSON.parse(row.question) as Question } : notPending
}

const notPending: Refusal = { refused: 'approval_not_pending', why: 'The call is not waiting for an answer.' }

export function* answerAsk(
  dialect: Dialect,
  command: AnswerCommand & { ruleId: string; now: string },
): Script<Refusable<{ done: true }>> {
  const head = yield* findHead(dialect, command.tenant, command.conversationId, 'change')
  if (!head) return noConversation
  const run = (yield* runsOf(dialect, command.conversationId)).find((row) => row.run_id === command.runId)
  if (!run) return noRun
  const pending = yield* pendingQuestion(dialect, command)
  if ('refused' in pending) return pending
  const { question } = pending
  // Only what the person was shown may run.
  if (command.approved && command.questionSha256 !== question.sha256) {
    return {
      refused: 'approval_not_pending',
      why: 'The approval names a different question than the pending one. Read the pending question.',
    }
  }
  const { grant, optionId = null } = command
  const option = optionId === null ? null : question.options?.find((one) => one.id === optionId)
  // Only an answer of the same sense as the option: a denial must not select what allows.
  if (option === undefined || (option && isAllowing(option.kind) !== command.approved)) {
    return { refused: 'invalid_request', why: 'The question has no such option for this answer.' }
  }
  const answered = yield* all(
    dialect.db
      .updateTable('asks')
      .set({
        approved: command.approved ? 1 : 0,
        reason: command.reason,
        answered_by: command.by,
        grants: JSON.stringify(optionId === null ? grant : { ...grant, option_id: optionId }),
      })
      .where('run_id', '=', command.runId)
      .where('tool_call_id', '=', command.toolCallId)
      .where('approved', 'is', null)
      .returning('run_id'),
  )
  if (answered.length === 0) return notPending
  if (command.approved && command.always) {
    const { tenant, by, ruleId: id, now: createdAt } = command
    const { match, scope } = command.always
    const { toolName } = question
    const found = ruleSubjects(question.subject).find((one) => one.match === match)
    if (!found)
      return { refused: 'invalid_request', why: 'Commands like this one can be allowed one by one only.' }
    const conversationId = scope === 'conversation' ? command.conversationId : null
    const workspaceId = parseCopyWorkspaceId(run.workspace_id)?.workspaceId ?? run.workspace_id
    const isConfined = question.confinement?.sandbox != null && !grant.outside
    const rule = {
      id,
      tenant,
      workspaceId,
      conversationId,
      toolName,
      ...found,
      grant,
      isConfined,
      by,
      createdAt,
    }
    yield* putRule(dialect, rule)
  }
  return { done: true }
}

export function* readSignals({ db }: Dialect, runId: RunId): Script<Signals> {
  const run = yield* first(db.selectFrom('queue').select('cancelled_by').where('run_id', '=', runId))
  const rows = yield* all(
    db.selectFrom('asks').selectAll().where('run_id', '=', runId).where('approved', 'is not', null),
  )
  return {
    isQueued: run !== undefined,
    cancelledBy: run?.cancelled_by ?? null,
    answers: rows.map((row) => ({
      toolCallId: row.tool_call_id,
      approved: row.approved === 1,
      reason: row.reason,
      by: row.answered_by ?? '',
      ...grantIn(row.grants),
    })),
  }
}

function grantIn(text: string | null): { grant: Grant; optionId: string | null } {
  if (text === null) return { grant: noGrant, optionId: null }
  const { option_id, ...grant } = JSON.parse(text) as Grant & { option_id?: string }
  return { grant, optionId: option_id ?? null }
}

/** Locks several rows in a fixed order, so that renewing leases and ending runs can't deadlock. */
export function* lockQueued(
  { name, db, isIn, list, lockRows }: Dialect,
  runIds: readonly string[],
): Script<void> {
  if (name === 'sqlite' || runIds.length < 2) return
  const rows = db
    .selectFrom('queue')
    .select('run_id')
    .where(isIn('queue.run_id', list(runIds)))
  yield* all(rows.orderBy('run_id').modifyEnd(lockRows))
}

/** Removes ended runs from the queue, in the transaction that ends them. */
export function* leaveQueue(dialect: Dialect, runIds: readonly string[]): Script<void> {
  if (runIds.length === 0) return
  const { db, isIn, list } = dialect
  yield* lockQueued(dialect, runIds)
  yield* all(db.deleteFrom('queue').where(isIn('queue.run_id', list(runIds))))
  yield* all(db.deleteFrom('asks').where(isIn('asks.run_id', list(runIds))))
}

export function* abandonRun(dialect: Dialect, runId: RunId): Script<{ done: true }> {
  const row = yield* first(
    dialect.db.selectFrom('queue').select('conversation_id').where('run_id', '=', runId),
  )
  if (row) yield* lockConversations(dialect, [row.conversation_id])
  yield* all(dialect.db.updateTable('runs').set({ ended: ABANDONED }).where('id', '=', runId))
  yield* leaveQueue(dialect, [runId])
  return { done: true }
}

/** Abandons the active run and empties the queue: the line they belong to has been left, so no run can write or end. */
export function* abandonAll(dialect: Dialect, conversationId: string): Script<void> {
  const rows = yield* runsOf(dialect, conversationId)
  for (const { run_id } of rows.filter((row) => row.state === 'active')) {
    yield* all(
      dialect.db
        .updateTable('runs')
        .set({ ended: ABANDONED })
        .where('id', '=', run_id)
        .where('ended', '=', RUNNING),
    )
  }
  yield* leaveQueue(
    dialect,
    rows.map((row) => row.run_id),
  )
}

/** Requests that the active run stop and removes all waiting messages; returns both (D2). */
export function* stopAll(
  dialect: Dialect,
  command: CancelCommand,
): Script<Refusable<{ runId: RunId | null; waiting: WaitingMessage[] }>> {
  const head = yield* findHead(dialect, command.tenant, command.conversationId, 'change')
  if (!head) return noConversation
  const rows = yield* runsOf(dialect, command.conversationId)
  const active = rows.find((row) => row.state === 'active')
  const waiting = rows.filter((row) => row !== active).map(asWaiting)
  yield* leaveQueue(
    dialect,
    waiting.map((row) => row.runId),
  )
  if (!active) return { runId: null, waiting }
  yield* markCancelled(dialect, active.run_id, command.by)
  return { runId: active.run_id as RunId, waiting }
}

function asWaiting(row: {
  run_id: string
  message_id: string
  content: string
  extras: string | null
}): WaitingMessage {
  const extras = JSON.parse(row.extras ?? '{}') as MessageExtras
  return { runId: row.run_id, messageId: row.message_id, content: row.content, extras }
}

function* runsOf({ db }: Dialect, conversationId: string) {
  return yield* all(
    db
      .selectFrom('queue')
      .selectAll()
      .where('conversation_id', '=', conversationId)
      .orderBy(sql`case state when 'active' then 0 else 1 end`)
      .orderBy('place'),
  )
}

function* markCancelled({ db }: Dialect, runId: string, by: string): Script<void> {
  yield* all(
    db
      .updateTable('queue')
      .set({ cancelled_by: by })
      .where('run_id', '=', runId)
      .where('cancelled_by', 'is', null),
  )
}
