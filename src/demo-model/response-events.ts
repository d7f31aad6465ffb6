import { randomBytes } from 'node:crypto'
import { pieces, SCRIPTED_FAILURE, type Step, tokensOf } from './script.ts'

export type ModelEvent = { type: string; sequence_number: number } & Record<string, unknown>

export interface ModelResponse {
  id: string
  object: 'response'
  created_at: number
  status: string
  model: string
  output: Record<string, unknown>[]
  previous_response_id: string | null
  error: { code: string; message: string } | null
  incomplete_details: null
  usage: Record<string, unknown> | null
}

/** Arguments stream in pieces of this many characters. */
const ARGUMENT_PIECE = 12

/** Yields the events that a provider streams for one response, in the same order and with the same fields. */
export function* responseEvents(
  response: ModelResponse,
  step: Step,
  usage: { input: number; cached: number },
): Generator<ModelEvent> {
  let sequence = 0
  const event = (type: string, fields: Record<string, unknown>): ModelEvent => ({
    type,
    sequence_number: sequence++,
    ...fields,
  })

  function* item(
    done: Record<string, unknown>,
    added: Record<string, unknown>,
    inner: Generator<ModelEvent>,
  ) {
    const output_index = response.output.length
    yield event('response.output_item.added', { output_index, item: added })
    yield* inner
    response.output.push(done)
    yield event('response.output_item.done', { output_index, item: done })
  }

  function* reasoning(words: readonly string[]): Generator<ModelEvent> {
    const id = newItemId('rs')
    const place = { item_id: id, output_index: response.output.length, summary_index: 0 }
    const text = words.join(' ')
    const part = { type: 'summary_text', text }
    const stream = function* (): Generator<ModelEvent> {
      yield event('response.reasoning_summary_part.added', { ...place, part: { ...part, text: '' } })
      for (const delta of pieces(words))
        yield event('response.reasoning_summary_text.delta', { ...place, delta })
      yield event('response.reasoning_summary_text.done', { ...place, text })
      yield event('response.reasoning_summary_part.done', { ...place, part })
    }
    const base = { id, type: 'reasoning' }
    yield* item({ ...base, summary: [part] }, { ...base, summary: [] }, stream())
  }

  function* message(words: readonly string[]): Generator<ModelEvent> {
    const id = newItemId('msg')
    const place = { item_id: id, output_index: response.output.length, content_index: 0 }
    const part = { type: 'output_text', annotations: [], text: '' }
    const text = words.join(' ')
    const stream = function* (): Generator<ModelEvent> {
      yield event('response.content_part.added', { ...place, part })
      for (const delta of pieces(words)) {
        yield event('response.output_text.delta', { ...place, delta, logprobs: [] })
      }
      yield event('response.output_text.done', { ...place, text, logprobs: [] })
      yield event('response.content_part.done', { ...place, part: { ...part, text } })
    }
    const base = { id, type: 'message', role: 'assistant' }
    const done = { ...base, status: 'completed', content: [{ ...part, text }] }
    yield* item(done, { ...base, status: 'in_progress', content: [] }, stream())
  }

  function* call(name: string, text: string): Generator<ModelEvent> {
    const id = newItemId('fc')
    const place = { item_id: id, output_index: response.output.length }
    const stream = function* (): Generator<ModelEvent> {
      for (let at = 0; at < text.length; at += ARGUMENT_PIECE) {
        const delta = text.slice(at, at + ARGUMENT_PIECE)
        yield event('response.function_call_arguments.delta', { ...place, delta })
      }
      yield event('response.function_call_arguments.done', { ...place, arguments: text })
    }
    const base = { id, type: 'function_call', call_id: newItemId('call'), name }
    const done = { ...base, status: 'completed', arguments: text }
    yield* item(done, { ...base, status: 'in_progress', arguments: '' }, stream())
  }

  /** The first words of an answer that will not end. */
  function* unfinished(): Generator<ModelEvent> {
    for (const one of message(['This', 'answer', 'stops', 'here'])) {
      if (one.type === 'response.output_text.done') return
      yield one
    }
  }

  const snapshot = () => ({ ...response, output: [...response.output] })
  yield event('response.created', { response: snapshot() })
  yield event('response.in_progress', { response: snapshot() })
  if (step.type === 'fail') {
    response.status = 'failed'
    response.error = { code: 'server_error', message: SCRIPTED_FAILURE }
    yield event('response.failed', { response: snapshot() })
    return
  }
  if (step.type === 'hang' || step.type === 'break') return yield* unfinished()
  if (step.reasoning.length > 0) yield* reasoning(step.reasoning)
  if (step.type === 'say') yield* message(step.words)
  else for (const { name, arguments: text } of step.calls) yield* call(name, text)
  response.status = 'completed'
  response.usage = usageOf(usage, response.output)
  yield event('response.completed', { response: snapshot() })
}

function usageOf(
  { input: input_tokens, cached: cached_tokens }: { input: number; cached: number },
  output: readonly unknown[],
): Record<string, unknown> {
  const output_tokens = tokensOf(output)
  return {
    input_tokens,
    input_tokens_details: { cached_tokens },
    output_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input_tokens + output_tokens,
  }
}

export function newItemId(prefix: string): string {
  return `${prefix}_demo${randomBytes(12).toString('hex')}`
}
