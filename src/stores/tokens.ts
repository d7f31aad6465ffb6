import type { TokenStore } from '../core/tokens.ts'
import type { Database } from './database.ts'

export function createTokenStore(database: Database): TokenStore {
  return {
    find: (hash) => database.read('findToken', hash),
    put: (hash, token) => database.write('putToken', { hash, token }),
    list: () => database.read('listTokens', null),
    revoke: (id) => database.write('revokeToken', id),
  }
}
