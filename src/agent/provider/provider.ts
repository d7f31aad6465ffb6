import { setTimeout } from 'node:timers/promises'
import type OpenAI from 'openai'
import type { ResponseCreateParamsStreaming, ResponseStreamEvent } from 'openai/resources/responses/responses'
import { ModelFailure } from '../../core/agent.ts'
import { REDACTED } from '../../core/redact.ts'
import type { ResponseEnd } from '../../core/responses.ts'
import { closeCalls, closeItems, type RunRecord } from '../../core/run-record.ts'
import type { RunWriter } from '../../core/run-writer.ts'
import { createBoundedFetch, OutboundFailure, type OutboundLimits } from '../../outbound/bounded-fetch.ts'
import { newId } from '../../protocol/ids.ts'
import { failureOf, malformed, shownCode, shownMessage } from './failures.ts'
import { createFrameMapper, type ModelResult } from './stream-frames.ts'

export interface ProviderOptions {
  baseUrl: string | null
  apiKey: string | null
  /** How often a request is made at most, when it fails for a reason that may pass. */
  attempts?: number
  firstWaitMs?: number
  limits?: Partial<OutboundLimits>
}

export type ModelRequest = Omit<ResponseCreateParamsStreaming, 'stream'>

export interface ModelCall {
  request: ModelRequest
  writer: RunWriter
  record: RunRecord
  signal: AbortSignal
  /** Records each round trip and names it. Optional. */
  recorder?: RoundTrips
}

export interface RoundTrips {
  begin(): Promise<string>
  end(id: string, end: ResponseEnd): Promise<void>
}

/** The code of a failure: the provider does not know the response that the request goes on from, or no longer does. */
export const UNKNOWN_PREVIOUS = 'previous_response_not_found'

/** A model that is called through the Responses API. */
export interface Provider {
  /** Streams one response into frames. Failures that may pass are tried again, visibly, a few times (R5). */
  respond(call: ModelCall): Promise<ModelResult>
}

const ATTEMPTS = 4
const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 20_000

export function createProvider(options: ProviderOptions): Provider {
  const { attempts = ATTEMPTS, firstWaitMs = FIRST_WAIT_MS } = options
  let client: Promise<OpenAI> | null = null

  return {
    async respond(call) {
      const { writer, record, signal } = call
      for (let attempt = 1; ; attempt++) {
        signal.throwIfAborted()
        try {
          client ??= openClient(options)
          return await roundTrip(await client, call, options)
        } catch (error) {
          signal.throwIfAborted()
          const failure = asModelFailure(error, options.apiKey)
          if (!failure) throw error
          if (!failure.isRetryable || attempt >= attempts) throw failure
          const wait = waitBefore(attempt, firstWaitMs, error)
          writer.write(...closeItems(record), ...closeCalls(record), {
            kind: 'lifecycle',
            status: 'in_progress',
            reason: `${failure.message} Trying again in ${seconds(wait)} (${attempt + 1} of ${attempts}).`,
          })
          await setTimeout(wait, undefined, { signal }).catch(() => signal.throwIfAborted())
        }
      }
    },
  }
}

/** One request with its answer, on record before it is sent. */
async function roundTrip(client: OpenAI, call: ModelCall, options: ProviderOptions): Promise<ModelResult> {
  const { recorder, signal, writer } = call
  const id = (await recorder?.begin()) ?? newId('resp')
  try {
    const result = await stream(client, call, id, options)
    // Store the frames before the response record.
    await writer.flush()
    await recorder?.end(id, endOf(result))
    return result
  } catch (error) {
    await recorder?.end(id, failedEnd(error, signal, options.apiKey))
    throw error
  }
}

function endOf({ status, providerIds, payload, usage }: ModelResult): ResponseEnd {
  return {
    status,
    providerId: providerIds.at(-1) ?? null,
    response: payload,
    usage: { input_tokens: usage.input, output_tokens: usage.output, total_tokens: usage.total },
    error: null,
  }
}

function failedEnd(error: unknown, signal: AbortSignal, apiKey: string | null): ResponseEnd {
  const nothing = { providerId: null, response: null, usage: null }
  if (signal.aborted) return { ...nothing, status: 'cancelled', error: null }
  const failure = asModelFailure(error, apiKey)
  const { code, message } = failure ?? { code: 'internal', message: 'The server failed.' }
  return { ...nothing, status: 'failed', error: { code, message } }
}

async function stream(
  client: OpenAI,
  call: ModelCall,
  responseId: string,
  { limits = {} }: ProviderOptions,
): Promise<ModelResult> {
  const { request, writer, record, signal } = call
  const ids = [responseId]
  const mapper = createFrameMapper({
    emit: (frame) => writer.write(frame),
    newResponseId: () => ids.pop() ?? newId('resp'),
    hasCall: (callId) => record.call(callId) !== undefined,
  })
  /**
   * The signal stops the request itself. Given to the SDK, it would be joined with the SDK's own and asked several times an
   * event, which costs a quarter of the time of reading a fast stream.
   */
  const stoppable = client.withOptions({ fetch: createBoundedFetch({ limits, signal }) })
  const events: AsyncIterable<ResponseStreamEvent> = await stoppable.responses.create({
    ...request,
    stream: true,
  })
  const reader = events[Symbol.asyncIterator]()
  try {
    for (let next = await nextEvent(reader); !next.done; next = await nextEvent(reader)) {
      mapper.take(next.value)
      const room = writer.room()
      if (room) await room
    }
  } finally {
    // A stream that is left before its end is closed.
    await reader.return?.().catch(() => {})
  }
  // An aborted stream ends as if it were over.
  signal.throwIfAborted()
  return mapper.finish()
}

/** What can't be read as a stream of events is the provider's fault, whatever error it ends in here. */
async function nextEvent(reader: AsyncIterator<ResponseStreamEvent>) {
  try {
    return await reader.next()
  } catch (error) {
    if (modelFailureOf(error)) throw error
    throw malformed(error)
  }
}

/** Loaded when it is first needed: it takes a tenth of a second. */
async function openClient({ baseUrl, apiKey }: ProviderOptions): Promise<OpenAI> {
  const { default: Client } = await import('openai')
  return new Client({
    // A local server wants none, but the SDK does.
    apiKey: apiKey ?? 'none',
    ...(baseUrl === null ? {} : { baseURL: baseUrl }),
    // Trying again is ours to do, where people can see it.
    maxRetries: 0,
    // The bounded fetch has its own.
    timeout: 2 ** 31 - 1,
    logLevel: 'off',
  })
}

interface ApiError extends Error {
  status?: number | undefined
  code?: string | null | undefined
  headers?: Headers | undefined
  param?: string | null | undefined
  error?: { message?: string } | undefined
}

const PASSING_STATUSES = new Set([408, 409, 425, 429, 500, 502, 503, 504, 529])
/** A quota does not come back in a few seconds. */
const LASTING_CODES = new Set(['insufficient_quota', 'billing_hard_limit_reached'])

/** Null when the error is not the provider's. */
function asModelFailure(error: unknown, apiKey: string | null): ModelFailure | null {
  const failure = modelFailureOf(error)
  if (!failure || !apiKey || !failure.message.includes(apiKey)) return failure
  // Some servers repeat what they were sent.
  const { code, isRetryable } = failure
  return new ModelFailure(code, failure.message.replaceAll(apiKey, REDACTED), { isRetryable, cause: error })
}

function modelFailureOf(error: unknown): ModelFailure | null {
  if (error instanceof ModelFailure) return error
  const outbound = outboundIn(error)
  if (outbound) {
    return new ModelFailure(outbound.code, `The model's server failed: ${outbound.message}`, {
      isRetryable: outbound.code === 'timeout',
      cause: error,
    })
  }
  if (!(error instanceof Error) || !isApiError(error)) return null
  const { status, code } = error
  if (status === undefined && code) return failureOf(code, said(error))
  if (status === undefined) {
    const cause = error.cause instanceof Error ? ` (${error.cause.message})` : ''
    return new ModelFailure('connection_failed', `The model can not be reached${cause}.`, {
      isRetryable: true,
      cause: error,
    })
  }
  const isUnknownPrevious =
    (status === 400 || status === 404) &&
    (code === UNKNOWN_PREVIOUS || error.param === 'previous_response_id')
  const name = isUnknownPrevious ? UNKNOWN_PREVIOUS : shownCode(code ?? `http_${status}`)
  return new ModelFailure(name, `The model answered ${status}: ${said(error)}`, {
    isRetryable: PASSING_STATUSES.has(status) && !LASTING_CODES.has(code ?? ''),
    cause: error,
  })
}

/** The SDK wraps errors of a request in its own. */
function outboundIn(error: unknown): OutboundFailure | null {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    if (at instanceof OutboundFailure) return at
  }
  return null
}

/** The SDK is loaded late, so its errors are known by their shape. */
function isApiError(error: Error): error is ApiError {
  return 'status' in error || error.constructor.name.startsWith('API') || isConnectionError(error)
}

/** A body that breaks off in the middle comes as the platform's own error. */
function isConnectionError(error: Error): boolean {
  const { code } = (error.cause ?? {}) as { code?: string }
  return error.message === 'terminated' || /^(UND_ERR|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND)/.test(code ?? '')
}

function said(error: ApiError): string {
  const text = shownMessage(error.error?.message ?? error.message)
  return /[.!?]$/.test(text) ? text : `${text}.`
}

/** Doubling, with chance in it; the provider's own word counts more. */
function waitBefore(attempt: number, firstMs: number, error: unknown): number {
  const asked = Number((error as ApiError).headers?.get?.('retry-after')) * 1000
  const wait = asked > 0 ? asked : firstMs * 2 ** (attempt - 1) * (0.75 + Math.random() / 2)
  return Math.min(wait, LONGEST_WAIT_MS)
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`
}
