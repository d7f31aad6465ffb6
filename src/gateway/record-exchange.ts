import type { Turn } from '../core/agent.ts'
import { type Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { ResponseEnd, Responses } from '../core/responses.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { newId } from '../protocol/ids.ts'
import { type Exchange, withoutCredentials } from './exchange.ts'
import { type ReadAnswer, readAnswer } from './read-answer.ts'
import { partsOf, type ReadRequest, readRequest } from './request-items.ts'

export interface RecordDependencies {
  responses: Pick<Responses, 'begin' | 'end'>
  clock: Clock
  log: Pick<Log, 'error'>
}

/** The run that a request belongs to. */
export type RecordPlace = Pick<
  Turn,
  'tenant' | 'conversationId' | 'runId' | 'workspaceId' | 'hold' | 'message'
>

export interface Recorded extends ReadAnswer {
  responseId: string
  request: ReadRequest
}

/** Records the requests of a run that show nothing in its transcript. A failure is logged: it must not reach the agent. */
export interface Recording {
  /** Resolves with the request as soon as it is read; null when it can't be kept. Never rejects. */
  add(exchange: Exchange): Promise<ReadRequest | null>
  /** Resolves when those under way are recorded. */
  settled(): Promise<unknown>
}

export function createRecording(deps: RecordDependencies, place: RecordPlace): Recording {
  const underWay = new Set<Promise<unknown>>()
  return {
    async add(exchange) {
      const reading = exchange.request.then((body) =>
        body === null ? null : readRequest(exchange.protocol, body),
      )
      const done = reading
        .then((request) => request && recordExchange(deps, place, exchange, request))
        .catch((error: unknown) => {
          deps.log.error({ err: error, run: place.runId }, 'a request of an agent could not be recorded')
        })
      underWay.add(done)
      void done.finally(() => underWay.delete(done))
      // A request that can't be read is logged above.
      return await reading.catch(() => null)
    },
    settled: () => Promise.allSettled(underWay),
  }
}

/** Records one request of an agent and its answer (C1). Null when the request can't be kept. `emit` gets the answer's frames. */
export async function recordExchange(
  { responses, clock }: RecordDependencies,
  place: RecordPlace,
  exchange: Exchange,
  request: ReadRequest,
  emit: (frame: FrameDraft) => void = () => {},
): Promise<Recorded | null> {
  const body = await exchange.request
  if (body === null) return null
  const responseId = newId('resp', clock.now())
  const { tenant, conversationId, runId, workspaceId, hold, message } = place
  const details = {
    model: request.model,
    provider: exchange.upstream,
    message_id: message.messageId,
    question: message.content,
    workspace_id: workspaceId,
    rag_scope: null,
    previous_response_id: null,
    chain: 'not_kept' as const,
    parts: partsOf(request),
  }
  const fence = { conversationId, runId, epoch: hold.epoch }
  await responses.begin({ id: responseId, tenant, conversationId, runId, request: body, details }, fence)
  const read = await readAnswer(exchange, responseId, emit)
  const end = endWithout(read.end, exchange.credentials)
  await responses.end(responseId, end)
  return { responseId, request, ...read, end }
}

function endWithout(end: ResponseEnd, credentials: readonly string[]): ResponseEnd {
  const hidden = (text: string) => withoutCredentials(text, credentials)
  const { response, error } = end
  return {
    ...end,
    response: response === null ? null : hidden(response),
    error: error && { ...error, message: hidden(error.message) },
  }
}
