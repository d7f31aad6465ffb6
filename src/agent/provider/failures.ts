import { ModelFailure } from '../../core/agent.ts'
import { cutText } from '../../core/limits.ts'
import { REDACTED } from '../../core/redact.ts'
import { OutboundFailure } from '../../outbound/bounded-fetch.ts'
import type { ModelRequest } from './protocol.ts'

/** Failures of the provider, as the run's error frame reports them. */

/** The failure code when the provider does not have the response that the request continues from, or no longer does. */
export const UNKNOWN_PREVIOUS = 'previous_response_not_found'

/** Limits for a provider's own text in frames and records. */
const MAX_SAID = 2000
const MAX_CODE = 500

const PASSING_CODES = new Set([
  'server_error',
  'rate_limit_exceeded',
  'overloaded',
  'timeout',
  'internal_error',
  // Anthropic's names.
  'overloaded_error',
  'rate_limit_error',
  'api_error',
  'timeout_error',
])
const PASSING_STATUSES = new Set([408, 409, 425, 429, 500, 502, 503, 504, 529])
/** A quota does not recover in a few seconds. */
const LASTING_CODES = new Set(['insufficient_quota', 'billing_hard_limit_reached', 'billing_error'])
/** Servers refuse a chain with any of these statuses, and in any wording. */
const REFUSING_STATUSES = new Set([400, 404, 409, 410, 422])
/** Refusals with these codes have another reason. */
const OTHER_REASONS = new Set([
  'context_length_exceeded',
  'model_not_found',
  'invalid_api_key',
  'content_policy_violation',
])
const NO_SUCH_PATH = new Set([404, 405, 501])

/** The SDKs' errors. They are loaded late, so their errors are recognized by their shape. */
interface ApiError extends Error {
  status?: number | undefined
  code?: string | null | undefined
  headers?: Headers | undefined
  param?: string | null | undefined
  error?: ErrorBody | undefined
}

interface ErrorBody {
  message?: unknown
  type?: unknown
  /** Anthropic nests the error one level deeper. */
  error?: { message?: unknown; type?: unknown }
}

/** A failure that the provider reported. Either field may differ from the SDK's types. */
export function failureOf(code: unknown, message: unknown): ModelFailure {
  const name = shownCode(code)
  return new ModelFailure(name, shownMessage(message || 'The model failed.'), {
    isRetryable: PASSING_CODES.has(name),
  })
}

export function tooLarge(): ModelFailure {
  return new ModelFailure('answer_too_large', "The model's answer exceeds the size limit.", {
    isRetryable: false,
  })
}

/** The provider sent data that is not an event of its protocol. */
export function malformed(cause: unknown): ModelFailure {
  return new ModelFailure('malformed_stream', "The model's server sent an invalid response.", {
    isRetryable: false,
    cause,
  })
}

export function chainIgnored(): ModelFailure {
  return new ModelFailure(UNKNOWN_PREVIOUS, "The model's server ignored the earlier responses.", {
    isRetryable: false,
  })
}

/** The error as a failure of the provider, without its key; null when the error is not the provider's. */
export function modelFailureOf(
  error: unknown,
  apiKey: string | null,
  request?: Pick<ModelRequest, 'previous_response_id'>,
): ModelFailure | null {
  const failure = failureIn(error, request?.previous_response_id !== undefined)
  if (!failure || !apiKey || !failure.message.includes(apiKey)) return failure
  // Some servers echo the request, so the message may contain the key.
  const { code, isRetryable } = failure
  return new ModelFailure(code, failure.message.replaceAll(apiKey, REDACTED), { isRetryable, cause: error })
}

/** True if the server seems to lack the path. Some answer the same for a model that they don't have. */
export function isNoSuchPath(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { status = 0, code } = error as ApiError
  return NO_SUCH_PATH.has(status) && !code
}

/** How long the provider asks to wait; null when it doesn't. */
export function retryAfterMs(error: unknown): number | null {
  const asked = Number((error as ApiError).headers?.get?.('retry-after')) * 1000
  return asked > 0 ? asked : null
}

function failureIn(error: unknown, isContinued: boolean): ModelFailure | null {
  if (error instanceof ModelFailure) return error
  const outbound = outboundIn(error)
  if (outbound) {
    return new ModelFailure(outbound.code, `The model's server failed: ${outbound.message}`, {
      isRetryable: outbound.code === 'timeout',
      cause: error,
    })
  }
  if (!(error instanceof Error) || !isApiError(error)) return null
  const { status } = error
  const code = codeOf(error)
  if (status === undefined && code) return failureOf(code, said(error))
  if (status === undefined) {
    const why = reasonOf(error)
    const shown = why === null ? '' : ` (${why})`
    return new ModelFailure('connection_failed', `The model can't be reached${shown}.`, {
      isRetryable: true,
      cause: error,
    })
  }
  const isRefusedChain =
    isContinued && REFUSING_STATUSES.has(status) && (code === null || !OTHER_REASONS.has(code))
  const name = isRefusedChain ? UNKNOWN_PREVIOUS : shownCode(code ?? `http_${status}`)
  return new ModelFailure(name, `The model answered ${status}: ${said(error)}${adviceFor(status)}`, {
    isRetryable: !isRefusedChain && PASSING_STATUSES.has(status) && !LASTING_CODES.has(code ?? ''),
    cause: error,
  })
}

/** The innermost cause: the outer ones only say that a request failed. */
function reasonOf(error: Error): string | null {
  let at: unknown = error.cause
  for (let depth = 0; at instanceof Error && at.cause instanceof Error && depth < 5; depth++) at = at.cause
  return at instanceof Error ? shownMessage(at.message || ((at as NodeJS.ErrnoException).code ?? '')) : null
}

function adviceFor(status: number): string {
  if (status === 401 || status === 403) return ' Check the API key.'
  return NO_SUCH_PATH.has(status) ? " Check the base URL and the model's name." : ''
}

function codeOf({ code, error }: ApiError): string | null {
  const found = code ?? error?.error?.type ?? null
  return typeof found === 'string' && found !== '' ? found : null
}

/** The SDK wraps errors of a request in its own. */
function outboundIn(error: unknown): OutboundFailure | null {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if (at instanceof OutboundFailure) return at
  }
  return null
}

function isApiError(error: Error): error is ApiError {
  return 'status' in error || error.constructor.name.startsWith('API') || isConnectionError(error)
}

/** A truncated response body raises the platform's own error. */
function isConnectionError(error: Error): boolean {
  const { code } = (error.cause ?? {}) as { code?: string }
  return error.message === 'terminated' || /^(UND_ERR|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND)/.test(code ?? '')
}

function said({ error, message }: ApiError): string {
  const text = shownMessage(error?.error?.message ?? error?.message ?? message)
  return /[.!?]$/.test(text) ? text : `${text}.`
}

export function shownCode(code: unknown): string {
  return cutText(plain(code), MAX_CODE)
}

export function shownMessage(message: unknown): string {
  return cutText(plain(message), MAX_SAID)
}

/** Does not use `String`: a server may send an object whose conversion throws. */
function plain(value: unknown): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return `${value}`
  try {
    return JSON.stringify(value) ?? 'unknown'
  } catch {
    return 'unknown'
  }
}
