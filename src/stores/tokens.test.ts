import { describe, expect, inject, it } from 'vitest'
import { openPostgresStore, openSqliteStore } from '../../test/support/stores.ts'
import type { Token } from '../core/tokens.ts'
import { createTokenStore } from './tokens.ts'

const token = (id: string, parentId: string | null = null): Token => ({
  id,
  tenant: 'default',
  name: id,
  scopes: ['conversations:read'],
  createdAt: '2026-01-01T00:00:00.000Z',
  expiresAt: null,
  parentId,
})

describe.each([
  ['SQLite', openSqliteStore],
  ['Postgres', openPostgresStore(inject('postgresUrl'))],
])('tokens on %s', (_, open) => {
  it('finds tokens by hash and ends their sessions when a token is revoked or replaced', async () => {
    const store = await open()
    const tokens = createTokenStore(store.database)
    const found = async (hash: string) => (await tokens.find(hash))?.id ?? null

    await tokens.put('secret 1', token('a'))
    await tokens.put('session 1', token('s1', 'a'))
    expect([await found('secret 1'), await found('session 1'), await found('other')]).toEqual([
      'a',
      's1',
      null,
    ])

    // Another server stores the same secret under its own id; the sessions move to that id.
    await tokens.put('secret 1', token('b'))
    expect(await tokens.list()).toMatchObject([{ id: 'b' }, { id: 's1', parentId: 'b' }])

    // A new secret under the same id ends the sessions of the old secret.
    await tokens.put('secret 2', token('b'))
    expect([await found('secret 1'), await found('session 1'), await found('secret 2')]).toEqual([
      null,
      null,
      'b',
    ])

    await tokens.put('session 2', token('s2', 'b'))
    expect(await tokens.revoke('b')).toBe(true)
    expect([await found('secret 2'), await found('session 2')]).toEqual([null, null])
    expect(await tokens.revoke('b')).toBe(false)

    // A sign-in that races with the revocation of its token.
    await tokens.put('session 3', token('s3', 'b'))
    expect(await found('session 3')).toBeNull()
    await store.close()
  })
})
