import type { Token } from '../../../core/tokens.ts'
import type { Scope } from '../../../protocol/api/service.ts'
import type { Dialect } from '../dialect.ts'
import type { Schema } from '../schema.ts'
import { all, first, type Script } from '../script.ts'

export function* findToken({ db }: Dialect, hash: string): Script<Token | null> {
  const row = yield* first(db.selectFrom('tokens').selectAll().where('hash', '=', hash))
  return row ? asToken(row) : null
}

export function* putToken({ db }: Dialect, command: { hash: string; token: Token }): Script<void> {
  const { hash, token } = command
  // The parent token was revoked during the sign-in: store nothing.
  if (token.parentId !== null) {
    const parent = yield* first(db.selectFrom('tokens').select('id').where('id', '=', token.parentId))
    if (!parent) return
  }
  const before = yield* first(db.selectFrom('tokens').select('hash').where('id', '=', token.id))
  if (before?.hash !== hash) yield* all(db.deleteFrom('tokens').where('parent_id', '=', token.id))
  const sameSecret = db.selectFrom('tokens').select('id').where('hash', '=', hash)
  yield* all(db.updateTable('tokens').set({ parent_id: token.id }).where('parent_id', 'in', sameSecret))
  yield* all(db.deleteFrom('tokens').where((eb) => eb.or([eb('hash', '=', hash), eb('id', '=', token.id)])))
  yield* all(
    db.insertInto('tokens').values({
      hash,
      id: token.id,
      tenant_id: token.tenant,
      name: token.name,
      scopes: token.scopes.join(' '),
      created_at: token.createdAt,
      expires_at: token.expiresAt,
      parent_id: token.parentId,
    }),
  )
}

export function* listTokens({ db }: Dialect, _all: null): Script<Token[]> {
  const rows = yield* all(db.selectFrom('tokens').selectAll().orderBy('created_at').orderBy('id'))
  return rows.map(asToken)
}

export function* revokeToken({ db }: Dialect, id: string): Script<boolean> {
  yield* all(db.deleteFrom('tokens').where('parent_id', '=', id))
  return (yield* all(db.deleteFrom('tokens').where('id', '=', id).returning('id'))).length > 0
}

function asToken(row: Schema['tokens']): Token {
  return {
    id: row.id,
    tenant: row.tenant_id,
    name: row.name,
    scopes: row.scopes.split(' ').filter(Boolean) as Scope[],
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    parentId: row.parent_id,
  }
}
