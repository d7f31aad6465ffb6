import { ModelFailure } from '../../core/agent.ts'
import { cutText } from '../../core/limits.ts'

/** Failures of the provider, as the run's error frame tells of them. */

/** How much of a provider's own words goes into frames and records. */
const MAX_SAID = 2000
const MAX_CODE = 500

const PASSING_CODES = new Set([
  'server_error',
  'rate_limit_exceeded',
  'overloaded',
  'timeout',
  'internal_error',
])

/** What the provider itself said went wrong. Neither field need be what the SDK's types say. */
export function failureOf(code: unknown, message: unknown): ModelFailure {
  const name = shownCode(code)
  return new ModelFailure(name, shownMessage(message || 'The model failed.'), {
    isRetryable: PASSING_CODES.has(name),
  })
}

export function tooLarge(): ModelFailure {
  return new ModelFailure('answer_too_large', 'The model wrote more than an answer may have.', {
    isRetryable: false,
  })
}

/** The provider sent what is not an event of the Responses API. */
export function malformed(cause: unknown): ModelFailure {
  return new ModelFailure('malformed_stream', "The model's server sent something that is not an answer.", {
    isRetryable: false,
    cause,
  })
}

export function shownCode(code: unknown): string {
  return cutText(plain(code), MAX_CODE)
}

export function shownMessage(message: unknown): string {
  return cutText(plain(message), MAX_SAID)
}

/** Not `String`: a server may send an object whose conversion throws. */
function plain(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return `${value}`
  try {
    return JSON.stringify(value) ?? 'unknown'
  } catch {
    return 'unknown'
  }
}
