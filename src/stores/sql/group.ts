import type { Outcome } from '../engine.ts'
import type { AppendRequest } from './lines/append.ts'
import type { WriteCall } from './operations.ts'

/** Turns a group into calls. Adjacent appends become one call, so together they take as many statements as one append. */
export function asCalls(group: readonly WriteCall[]): WriteCall[] {
  const calls: WriteCall[] = []
  for (const { name, argument } of group) {
    const last = calls.at(-1)
    if (name !== 'append') calls.push({ name, argument })
    else if (last?.name === 'append') (last.argument as AppendRequest[]).push(argument as AppendRequest)
    else calls.push({ name, argument: [argument] })
  }
  return calls
}

/** Splits the results of the calls into one outcome per write. */
export function asOutcomes(calls: readonly WriteCall[], results: readonly unknown[]): Outcome[] {
  return calls.flatMap((call, index) => {
    const result = results[index]
    return call.name === 'append' ? (result as unknown[]).map((one) => ({ result: one })) : { result }
  })
}
