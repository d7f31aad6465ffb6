import type { Engine } from './engine.ts'
import type { WriteArgument, WriteName, WriteResult } from './sql/operations.ts'

/** A write in a transaction of its own, which concerns no conversation's readers. */
export async function writeOne<K extends WriteName>(
  engine: Engine,
  name: K,
  argument: WriteArgument<K>,
  queueOf: string | null = null,
): Promise<WriteResult<K>> {
  const [outcome] = await engine.write([{ name, argument, conversationId: null, queueOf }])
  if (!outcome) throw new Error('the write has no outcome')
  if ('error' in outcome) throw outcome.error
  return outcome.result as WriteResult<K>
}
