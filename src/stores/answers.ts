import { WaymarkError } from '../protocol/errors.ts'
import { OVER_BUDGET } from './sql/operations.ts'
import type { Refusal } from './sql/refusal.ts'

/** What a script answered, or its refusal as an error. */
export function accepted<T>(result: T): Exclude<T, Refusal> {
  if (isRefusal(result)) throw new WaymarkError(result.refused, result.why)
  return result as Exclude<T, Refusal>
}

function isRefusal(result: unknown): result is Refusal {
  return typeof result === 'object' && result !== null && 'refused' in result
}

/** Turns a failure of the store into an error for the caller (L3). */
export async function stored<T>(work: Promise<T>, what: 'read' | 'write' = 'write'): Promise<T> {
  try {
    return await work
  } catch (cause) {
    if ((cause as Error).message === OVER_BUDGET) {
      throw new WaymarkError('too_slow', 'That took longer than 10 seconds. Search for something rarer.', {
        cause,
      })
    }
    throw new WaymarkError('storage_failed', `The ${what} failed: ${(cause as Error).message}`, { cause })
  }
}
