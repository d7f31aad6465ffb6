import type { TokenStore } from '../core/tokens.ts'
import { stored } from './answers.ts'
import type { Engine } from './engine.ts'
import { writeOne } from './write-one.ts'

export function createTokenStore(engine: Engine): TokenStore {
  return {
    find: (hash) => stored(engine.read('findToken', hash), 'read'),
    put: (hash, token) => stored(writeOne(engine, 'putToken', { hash, token })),
    list: () => stored(engine.read('listTokens', null), 'read'),
    revoke: (id) => stored(writeOne(engine, 'revokeToken', id)),
  }
}
