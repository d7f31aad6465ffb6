import type { TokenStore } from '../core/tokens.ts'
import type { Engine, Outcome } from './engine.ts'

export function createTokenStore(engine: Engine): TokenStore {
  async function write(name: 'putToken' | 'revokeToken', argument: unknown): Promise<unknown> {
    const [outcome] = await engine.write([{ name, argument, conversationId: null }])
    return resultOf(outcome)
  }
  return {
    find: (hash) => engine.read('findToken', hash),
    async put(hash, token) {
      await write('putToken', { hash, token })
    },
    list: () => engine.read('listTokens', null),
    revoke: async (id) => (await write('revokeToken', id)) as boolean,
  }
}

function resultOf(outcome: Outcome | undefined): unknown {
  if (!outcome) throw new Error('the write has no outcome')
  if ('error' in outcome) throw outcome.error
  return outcome.result
}
