import type { Engine } from './engine.ts'
import type { WriteArgument, WriteName, WriteResult } from './sql/operations.ts'

/** A write that concerns no conversation's readers, in a transaction of its own. */
export async function writeOne<K extends WriteName>(
  engine: Engine,
  name: K,
  argument: WriteArgument<K>,
): Promise<WriteResult<K>> {
  const [outcome] = await engine.write([{ name, argument, conversationId: null }])
  if (!outcome) throw new Error('the write has no outcome')
  if ('error' in outcome) throw outcome.error
  return outcome.result as WriteResult<K>
}
