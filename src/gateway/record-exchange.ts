import type { Turn } from '../core/agent.ts'
import { type Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { Responses } from '../core/responses.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { newId } from '../protocol/ids.ts'
import type { Exchange } from './exchange.ts'
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
  add(exchange: Exchange): undefined
  /** Resolves when those under way are recorded. */
  settled(): Promise<unknown>
}

export function createRecording(deps: RecordDependencies, place: RecordPlace): Recording {
  const underWay = new Set<Promise<unknown>>()
  return {
    add(exchange) {
      const done = recordExchange(deps, place, exchange).catch((error: unknown) => {
        deps.log.error({ err: error, run: place.runId }, 'a request of an agent could not be recorded')
      })
      underWay.add(done)
      void done.finally(() => underWay.delete(done))
    },
    settled: () => Promise.allSettled(underWay),
  }
}

/** Records one request of an agent and its answer (C1). Null when the request can't be kept. `emit` gets the answer's frames. */
export async function recordExchange(
  { responses, clock }: RecordDependencies,
  place: RecordPlace,
  exchange: Exchange,
  emit: (frame: FrameDraft) => void = () => {},
  /** The request, if it has been read already. */
  known?: ReadRequest,
): Promise<Recorded | null> {
  const body = await exchange.request
  if (body === null) return null
  const request = known ?? readRequest(exchange.protocol, body)
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
  await responses.end(responseId, read.end)
  return { responseId, request, ...read }
}
