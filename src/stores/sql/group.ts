import type { Outcome, Write } from '../engine.ts'
import type { AppendRequest } from './append.ts'
import type { Call } from './operations.ts'

/** A group as calls: neighbouring appends become one, so that they cost as many statements as one of them. */
export function asCalls(group: readonly Write[]): Call[] {
  const calls: Call[] = []
  for (const { name, argument } of group) {
    const last = calls.at(-1)
    if (name !== 'append') calls.push({ name, argument })
    else if (last?.name === 'append') (last.argument as AppendRequest[]).push(argument as AppendRequest)
    else calls.push({ name, argument: [argument] })
  }
  return calls
}

/** Gives each write of the group its own result again. */
export function asOutcomes(calls: readonly Call[], results: readonly unknown[]): Outcome[] {
  return calls.flatMap((call, index) => {
    const result = results[index]
    return call.name === 'append' ? (result as unknown[]).map((one) => ({ result: one })) : { result }
  })
}
