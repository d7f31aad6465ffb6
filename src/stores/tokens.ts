import type { TokenStore } from '../core/tokens.ts'
import type { Engine } from './engine.ts'
import { writeOne } from './write-one.ts'

export function createTokenStore(engine: Engine): TokenStore {
  return {
    find: (hash) => engine.read('findToken', hash),
    put: (hash, token) => writeOne(engine, 'putToken', { hash, token }),
    list: () => engine.read('listTokens', null),
    revoke: (id) => writeOne(engine, 'revokeToken', id),
  }
}
