import { setTimeout } from 'node:timers/promises'
import type OpenAI from 'openai'
import type { ResponseCreateParamsStreaming, ResponseStreamEvent } from 'openai/resources/responses/responses'
import { ModelFailure } from '../../core/agent.ts'
import { REDACTED } from '../../core/redact.ts'
import { closeCalls, closeItems, type RunRecord } from '../../core/run-record.ts'
import type { RunWriter } from '../../core/run-writer.ts'
import { newId } from '../../protocol/ids.ts'
import { createFrameMapper, failureOf, type ModelResult } from './stream-frames.ts'

export interface ProviderOptions {
  baseUrl: string | null
  apiKey: string | null
  /** How often a request is made at most, when it fails for a reason that may pass. */
  attempts?: number
  firstWaitMs?: number
}

export type ModelRequest = Omit<ResponseCreateParamsStreaming, 'stream'>

export interface ModelCall {
  request: ModelRequest
  writer: RunWriter
  record: RunRecord
  signal: AbortSignal
}

/** A model behind the Responses API. */
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
    async respond({ request, writer, record, signal }) {
      for (let attempt = 1; ; attempt++) {
        signal.throwIfAborted()
        try {
          client ??= openClient(options)
          return await stream(await client, { request, writer, record, signal })
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

async function stream(client: OpenAI, call: ModelCall): Promise<ModelResult> {
  const { request, writer, record, signal } = call
  const mapper = createFrameMapper({
    emit: (frame) => writer.write(frame),
    newResponseId: () => newId('resp'),
    hasCall: (callId) => record.call(callId) !== undefined,
  })
  const stoppable = client.withOptions({ fetch: fetchUntil(signal) })
  const events: AsyncIterable<ResponseStreamEvent> = await stoppable.responses.create({
    ...request,
    stream: true,
  })
  for await (const event of events) {
    mapper.take(event)
    const room = writer.room()
    if (room) await room
  }
  // An aborted stream ends as if it were over.
  signal.throwIfAborted()
  return mapper.finish()
}

/**
 * The signal stops the request itself. Given to the SDK, it would be joined with the SDK's own and asked several times an
 * event, which costs a quarter of the time of reading a fast stream.
 */
function fetchUntil(signal: AbortSignal): typeof fetch {
  return async (input, init) => {
    const controller = new AbortController()
    for (const one of [signal, init?.signal]) {
      if (one?.aborted) controller.abort(one.reason)
      one?.addEventListener('abort', () => controller.abort(one.reason), { once: true })
    }
    return await fetch(input, { ...init, signal: controller.signal })
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
  })
}

interface ApiError extends Error {
  status?: number | undefined
  code?: string | null | undefined
  headers?: Headers | undefined
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
  return new ModelFailure(code ?? `http_${status}`, `The model answered ${status}: ${said(error)}`, {
    isRetryable: PASSING_STATUSES.has(status) && !LASTING_CODES.has(code ?? ''),
    cause: error,
  })
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
  const text = error.error?.message ?? error.message
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
