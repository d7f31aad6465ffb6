import type { ErrorCode } from '../../protocol/errors.ts'

/** The result of a script that refuses its command, decided before anything is written. */
export interface Refusal {
  refused: ErrorCode
  why: string
}

export type Refusable<T> = T | Refusal

export const noConversation = {
  refused: 'conversation_not_found',
  why: 'There is no such conversation.',
} as const satisfies Refusal

export const leaseLost = {
  refused: 'lease_lost',
  why: 'Another worker holds the run.',
} as const satisfies Refusal
