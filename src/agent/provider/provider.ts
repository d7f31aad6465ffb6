import { setTimeout } from 'node:timers/promises'
import type { ResponseCreatedEvent, ResponseStreamEvent } from 'openai/resources/responses/responses'
import { ModelFailure } from '../../core/agent.ts'
import type { ResponseEnd } from '../../core/responses.ts'
import { closeCalls, closeItems, type RunRecord } from '../../core/run-record.ts'
import type { RunWriter } from '../../core/run-writer.ts'
import { createBoundedFetch, type OutboundLimits } from '../../outbound/bounded-fetch.ts'
import { newId } from '../../protocol/ids.ts'
import { chainIgnored, isNoSuchPath, malformed, modelFailureOf, retryAfterMs } from './failures.ts'
import type { ModelResult } from './mapping.ts'
import type { ModelRequest, ModelServerAddress, Protocol, ProtocolClient, ProtocolName } from './protocol.ts'
import { protocols } from './protocols.ts'
import { createFrameMapper } from './stream-frames.ts'

export interface ProviderOptions extends ModelServerAddress {
  /** Null to find out: Responses first, Chat Completions if the server has no such path. */
  protocol?: ProtocolName | null
  /** The maximum number of attempts when a request fails with a transient error. */
  attempts?: number
  firstWaitMs?: number
  limits?: Partial<OutboundLimits>
}

export interface ModelCall {
  request: ModelRequest
  writer: RunWriter
  record: RunRecord
  signal: AbortSignal
  /** Records each round trip and gives it an id. */
  recorder?: RoundTrips
}

export interface RoundTrips {
  begin(body: string): Promise<string>
  end(id: string, end: ResponseEnd): Promise<void>
}

/** A model server. */
export interface Provider {
  /** The protocol of the next request. */
  protocol(): Protocol
  /**
   * Streams one response into frames. Retries transient failures a few times, visibly (R5). Throws a ModelFailure with the
   * code OTHER_PROTOCOL when the server turns out to speak another one: the caller plans its request again.
   */
  respond(call: ModelCall): Promise<ModelResult>
}

/** The failure code when the server lacks a protocol's path and the next request uses another protocol. */
export const OTHER_PROTOCOL = 'other_protocol'

const ATTEMPTS = 4
const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 20_000
/** The order in which protocols are tried on a server that is not known. */
const TRIED = ['responses', 'chat-completions'] as const

export function createProvider(options: ProviderOptions): Provider {
  const { attempts = ATTEMPTS, firstWaitMs = FIRST_WAIT_MS } = options
  const clients = new Map<ProtocolName, Promise<ProtocolClient>>()
  let name: ProtocolName = options.protocol ?? TRIED[0]
  let isCertain = Boolean(options.protocol)

  function clientOf(protocol: Protocol): Promise<ProtocolClient> {
    let client = clients.get(protocol.name)
    if (!client) clients.set(protocol.name, (client = protocol.open(options)))
    return client
  }

  /** Switches to the next protocol if the server lacks the path of this one. */
  function otherProtocol(error: unknown): ModelFailure | null {
    if (isCertain || !isNoSuchPath(error)) return null
    const next = TRIED[TRIED.indexOf(name as (typeof TRIED)[number]) + 1]
    // Start over with the next message: the server may be another one by then.
    name = next ?? TRIED[0]
    if (!next) return null
    return new ModelFailure(
      OTHER_PROTOCOL,
      `The model's server has no ${protocols[TRIED[0]].path}; using ${protocols[next].path}.`,
      { isRetryable: false, cause: error },
    )
  }

  return {
    protocol: () => protocols[name],
    async respond(call) {
      const { writer, record, signal } = call
      for (let attempt = 1; ; attempt++) {
        signal.throwIfAborted()
        const protocol = protocols[name]
        try {
          const result = await roundTrip(protocol, await clientOf(protocol), call, options)
          isCertain = true
          return result
        } catch (error) {
          signal.throwIfAborted()
          const failure = otherProtocol(error) ?? modelFailureOf(error, options.apiKey, call.request)
          if (!failure) throw error
          if (!failure.isRetryable || attempt >= attempts) throw failure
          const wait = waitBefore(attempt, firstWaitMs, error)
          writer.write(...closeItems(record), ...closeCalls(record), {
            kind: 'lifecycle',
            status: 'in_progress',
            reason: `${failure.message} Retrying in ${seconds(wait)} (${attempt + 1} of ${attempts}).`,
            retry: { wait_ms: Math.round(wait), attempt: attempt + 1, attempts },
          })
          await setTimeout(wait, undefined, { signal }).catch(() => signal.throwIfAborted())
        }
      }
    },
  }
}

/** Makes one request, recorded before it is sent, and reads its response. */
async function roundTrip(
  protocol: Protocol,
  client: ProtocolClient,
  call: ModelCall,
  options: ProviderOptions,
): Promise<ModelResult> {
  const { recorder, writer, request } = call
  const body = protocol.bodyOf(request)
  const id = (await recorder?.begin(JSON.stringify(body))) ?? newId('resp')
  try {
    const result = await stream(client, body, call, id, options)
    // Store the frames before the response record.
    await writer.flush()
    await recorder?.end(id, endOf(result))
    return result
  } catch (error) {
    await recorder?.end(id, failedEnd(error, call, options.apiKey))
    throw error
  }
}

/** The end of a response as its record has it. */
export function endOf({ status, providerIds, payload, usage }: ModelResult): ResponseEnd {
  return {
    status,
    providerId: providerIds.at(-1) ?? null,
    response: payload,
    usage: {
      input_tokens: usage.input,
      output_tokens: usage.output,
      total_tokens: usage.total,
      cached_tokens: usage.cached,
      ...(usage.cost === null ? {} : { cost: usage.cost }),
    },
    error: null,
  }
}

function failedEnd(error: unknown, { signal, request }: ModelCall, apiKey: string | null): ResponseEnd {
  const nothing = { providerId: null, response: null, usage: null }
  if (signal.aborted) return { ...nothing, status: 'cancelled', error: null }
  const failure = modelFailureOf(error, apiKey, request)
  const { code, message } = failure ?? { code: 'internal', message: 'The server failed.' }
  return { ...nothing, status: 'failed', error: { code, message } }
}

async function stream(
  client: ProtocolClient,
  body: object,
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
   * The signal aborts the request itself. If it were passed to the SDK, it would be combined with the SDK's own and checked
   * several times per event, which costs a quarter of the time of reading a fast stream.
   */
  const events = await client.stream(body, createBoundedFetch({ limits, signal }))
  const reader = events[Symbol.asyncIterator]()
  try {
    let isFirst = true
    for (let next = await nextEvent(reader); !next.done; next = await nextEvent(reader)) {
      // A stream may hold several responses; only the first continues ours.
      if (isFirst && next.value?.type === 'response.created') {
        isFirst = false
        assertContinues(request, next.value)
      }
      mapper.take(next.value)
      const room = writer.room()
      if (room) await room
    }
  } finally {
    // Close a stream that was not read to its end.
    await reader.return?.().catch(() => {})
  }
  // An aborted stream ends like a complete one.
  signal.throwIfAborted()
  return mapper.finish()
}

/** A server that continues from a response names it. One that doesn't has ignored the chain and knows nothing of it (C4). */
function assertContinues({ previous_response_id }: ModelRequest, { response }: ResponseCreatedEvent): void {
  if (previous_response_id === undefined) return
  if (response?.previous_response_id !== previous_response_id) throw chainIgnored()
}

/** Any error while reading the event stream counts as a failure of the provider. */
async function nextEvent(reader: AsyncIterator<ResponseStreamEvent>) {
  try {
    return await reader.next()
  } catch (error) {
    if (modelFailureOf(error, null)) throw error
    throw malformed(error)
  }
}

/** Exponential backoff with jitter; the provider's `retry-after` takes precedence. */
function waitBefore(attempt: number, firstMs: number, error: unknown): number {
  const wait = retryAfterMs(error) ?? firstMs * 2 ** (attempt - 1) * (0.75 + Math.random() / 2)
  return Math.min(wait, LONGEST_WAIT_MS)
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`
}
