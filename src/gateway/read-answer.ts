import { modelFailureOf } from '../agent/provider/failures.ts'
import type { ModelResult } from '../agent/provider/mapping.ts'
import type { ProtocolName } from '../agent/provider/protocol.ts'
import { protocols } from '../agent/provider/protocols.ts'
import { endOf } from '../agent/provider/provider.ts'
import { createFrameMapper } from '../agent/provider/stream-frames.ts'
import { ModelFailure } from '../core/agent.ts'
import { cutText } from '../core/limits.ts'
import type { ResponseEnd } from '../core/responses.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { newId } from '../protocol/ids.ts'
import { type Answer, type Exchange, withoutCredentials } from './exchange.ts'

/** How an answer ended, and what it was made of; the result is null for an answer that is no complete event stream. */
export interface ReadAnswer {
  end: ResponseEnd
  result: ModelResult | null
  /** The agent is asked to run something. */
  hasCalls: boolean
}

const nothing = { providerId: null, response: null, usage: null }
const MAX_ERROR = 1000
/** In a whole response: calls that wait for the agent. */
const CALLS = /"type"\s*:\s*"(?:function_call|custom_tool_call|tool_use)"|"tool_calls"\s*:\s*\[\s*\{/

/** Reads an answer while it arrives, with the code that reads the answers to our own requests; `emit` gets its frames. */
export async function readAnswer(
  {
    protocol,
    answer: arriving,
    isCancelled,
    credentials,
  }: Pick<Exchange, 'protocol' | 'answer' | 'isCancelled' | 'credentials'>,
  responseId: string,
  emit: (frame: FrameDraft) => void,
): Promise<ReadAnswer> {
  const answer = await arriving
  if (!answer) {
    if (isCancelled())
      return { result: null, hasCalls: false, end: { ...nothing, status: 'cancelled', error: null } }
    const error = { code: 'upstream_failed', message: 'The model server could not be reached.' }
    return { result: null, hasCalls: false, end: { ...nothing, status: 'failed', error } }
  }
  const isStream = answer.contentType.startsWith('text/event-stream')
  if (protocol === null || !isStream || answer.status >= 300) {
    const end = await plainEnd(answer, credentials)
    return { result: null, hasCalls: CALLS.test(end.response ?? ''), end }
  }
  try {
    const result = await mapped(protocol, answer, responseId, emit)
    const response = await answer.body.text
    return { result, hasCalls: result.calls.length > 0, end: { ...endOf(result), response } }
  } catch (error) {
    const response = await answer.body.text
    if (!(await answer.body.isComplete))
      return {
        result: null,
        hasCalls: false,
        end: { ...nothing, response, status: 'cancelled', error: null },
      }
    const failure = error instanceof ModelFailure ? error : modelFailureOf(error, null)
    const { code, message } = failure ?? { code: 'malformed', message: 'The answer could not be read.' }
    return {
      result: null,
      hasCalls: false,
      end: { ...nothing, response, status: 'failed', error: { code, message } },
    }
  }
}

async function mapped(
  protocol: ProtocolName,
  { status, contentType, body }: Answer,
  responseId: string,
  emit: (frame: FrameDraft) => void,
): Promise<ModelResult> {
  const client = await protocols[protocol].open({ baseUrl: null, apiKey: null })
  const headers = { 'Content-Type': contentType }
  // Nothing is sent: the answer is already here.
  const given = async () => new Response(body.stream(), { status, headers })
  const events = await client.stream(
    { model: '', stream: true, messages: [], input: [], max_tokens: 1 },
    given,
  )
  const ids = [responseId]
  const calls = new Set<string>()
  const mapper = createFrameMapper({
    emit,
    newResponseId: () => ids.pop() ?? newId('resp'),
    hasCall: (id) => calls.has(id),
  })
  for await (const event of events) mapper.take(event)
  return mapper.finish()
}

/** An answer that is no event stream: a whole response, or an error. */
async function plainEnd({ status, body }: Answer, credentials: readonly string[]): Promise<ResponseEnd> {
  const text = await body.text
  // Before the message is cut: a key across the cut would not be found.
  const response = text === null ? null : withoutCredentials(text, credentials)
  if (!(await body.isComplete)) return { ...nothing, response, status: 'cancelled', error: null }
  if (status >= 300) {
    const message = `The model server answered ${status}: ${cutText(response ?? '', MAX_ERROR)}`
    return { ...nothing, response, status: 'failed', error: { code: `http_${status}`, message } }
  }
  return { ...nothing, response, status: 'completed', error: null }
}
