import { timestamp } from '../../../core/clock.ts'
import type { Idempotency } from '../../../core/ledger.ts'
import type { Dialect } from '../dialect.ts'
import type { Refusable } from '../refusal.ts'
import { all, first, type Script } from '../script.ts'

/** The answer stored for this key; undefined if the request is new. */
export function* repeatedAnswer<T>(
  { db }: Dialect,
  tenant: string,
  idempotency: Idempotency | undefined,
): Script<Refusable<T> | undefined> {
  if (!idempotency) return undefined
  const earlier = yield* first(
    db
      .selectFrom('idempotency')
      .select(['fingerprint', 'response'])
      .where('tenant_id', '=', tenant)
      .where('key', '=', idempotency.key),
  )
  if (!earlier) return undefined
  if (earlier.fingerprint !== idempotency.fingerprint) {
    return { refused: 'idempotency_key_reused', why: 'This Idempotency-Key belongs to another request.' }
  }
  return JSON.parse(earlier.response) as T
}

export function* answeredBefore(
  dialect: Dialect,
  query: { tenant: string; idempotency: Idempotency },
): Script<Refusable<{ answer: unknown }>> {
  const earlier = yield* repeatedAnswer<object>(dialect, query.tenant, query.idempotency)
  return earlier && 'refused' in earlier ? earlier : { answer: earlier ?? null }
}

export function* storeAnswer(
  { db }: Dialect,
  request: { tenant: string; idempotency: Idempotency | undefined; now: number },
  answer: unknown,
  /** The work is already done outside the database: if another request has taken the key meanwhile, that one keeps it. */
  isDone = false,
): Script<void> {
  const { tenant, idempotency, now } = request
  if (!idempotency) return
  yield* all(
    db
      .insertInto('idempotency')
      .values({
        tenant_id: tenant,
        key: idempotency.key,
        fingerprint: idempotency.fingerprint,
        response: JSON.stringify(answer),
        created_at: timestamp(now),
      })
      .$if(isDone, (insert) => insert.onConflict((conflict) => conflict.doNothing())),
  )
}
