import type { ResponseStreamEvent } from 'openai/resources/responses/responses'
import type { RawItem } from './item-types.ts'

/**
 * Builds the events of a Responses stream from an answer that another protocol streams: texts, thoughts and calls, each an
 * item that begins with its first piece and ends before the next one begins.
 */
export interface AnswerEvents {
  /** Starts the response; later calls have no effect. */
  begin(id: unknown): void
  say(text: unknown): void
  refuse(text: unknown): void
  /** `field` marks reasoning that its server requires back in that field. */
  think(text: unknown, field?: string): void
  cite(citation: object): void
  call(key: string, call: { id: string; name: string }): void
  /** Fields that the call's server expects back with it. */
  addExtra(key: string, extra: unknown): void
  addArguments(key: string, piece: unknown): void
  /** An item that arrives whole. */
  whole(item: RawItem): void
  /** Ends the open text or thought; `native` is the form in which its server expects it back. */
  endItem(native?: Native): void
  end(incomplete: string | null, usage: AnswerUsage | null): void
  /** The events since the last call. */
  take(): ResponseStreamEvent[]
}

export interface Native {
  protocol: string
  value: unknown
}

export interface AnswerUsage {
  input_tokens: unknown
  output_tokens: unknown
  total_tokens?: unknown
  cached_tokens?: unknown
  reasoning_tokens?: unknown
  /** What the provider says the answer cost, in its own unit. */
  cost?: unknown
}

interface Item {
  index: number
  id: string
  type: 'message' | 'reasoning' | 'function_call'
  text: string
  refusal: string
  annotations: object[]
  call: { id: string; name: string; extra?: unknown } | null
  field: string | null
}

/** Limit for fields that are only sent back. */
const MAX_EXTRA = 64 * 1024

export function createAnswerEvents(): AnswerEvents {
  let events: object[] = []
  let responseId: string | null = null
  let count = 0
  /** The text or thought that is being streamed. */
  let open: Item | null = null
  const calls = new Map<string, Item>()

  function emit(type: string, fields: object): void {
    events.push({ type, ...fields })
  }

  function add(type: Item['type'], call: Item['call'] = null): Item {
    const index = count++
    const id = `${responseId ?? 'resp'}_${index}`
    const item: Item = { index, id, type, text: '', refusal: '', annotations: [], call, field: null }
    emit('response.output_item.added', { output_index: index, item: asRaw(item, 'in_progress') })
    return item
  }

  function openAs(type: 'message' | 'reasoning'): Item {
    if (open?.type === type) return open
    endOpen()
    return (open = add(type))
  }

  function endOpen(native?: Native): void {
    if (!open) return
    done(open, native)
    open = null
  }

  function done(item: Item, native?: Native): void {
    const raw = asRaw(item, 'completed')
    const back =
      native ??
      (item.field === null ? null : { protocol: 'chat-completions', value: { [item.field]: item.text } })
    emit('response.output_item.done', {
      output_index: item.index,
      item: back ? { ...raw, native: back } : raw,
    })
  }

  function place(item: Item) {
    return { output_index: item.index, item_id: item.id }
  }

  return {
    begin(id) {
      if (responseId !== null) return
      responseId = typeof id === 'string' && id !== '' ? id : `resp_${Math.random().toString(36).slice(2)}`
      emit('response.created', { response: { id: responseId, status: 'in_progress', output: [] } })
    },
    say(text) {
      if (typeof text !== 'string' || text === '') return
      const item = openAs('message')
      item.text += text
      emit('response.output_text.delta', { ...place(item), content_index: 0, delta: text })
    },
    refuse(text) {
      if (typeof text !== 'string' || text === '') return
      const item = openAs('message')
      item.refusal += text
      emit('response.refusal.delta', { ...place(item), content_index: item.text === '' ? 0 : 1, delta: text })
    },
    think(text, field) {
      if (typeof text !== 'string' || text === '') return
      const item = openAs('reasoning')
      item.text += text
      item.field = field ?? item.field
      emit('response.reasoning_text.delta', { ...place(item), content_index: 0, delta: text })
    },
    cite(citation) {
      const item = openAs('message')
      item.annotations.push(citation)
      emit('response.output_text.annotation.added', {
        ...place(item),
        content_index: 0,
        annotation_index: item.annotations.length - 1,
        annotation: citation,
      })
    },
    call(key, { id, name }) {
      endOpen()
      const index = count
      calls.set(key, add('function_call', { id: id || `call_${responseId ?? ''}_${index}`, name }))
    },
    addExtra(key, extra) {
      const call = calls.get(key)?.call
      const isUsable = typeof extra === 'object' && extra !== null
      if (call && isUsable && JSON.stringify(extra).length <= MAX_EXTRA) call.extra = extra
    },
    addArguments(key, piece) {
      const item = calls.get(key)
      if (!item || typeof piece !== 'string' || piece === '') return
      item.text += piece
      emit('response.function_call_arguments.delta', { ...place(item), delta: piece })
    },
    whole(item) {
      endOpen()
      const output_index = count++
      emit('response.output_item.added', { output_index, item })
      emit('response.output_item.done', { output_index, item })
    },
    endItem: endOpen,
    end(incomplete, usage) {
      endOpen()
      for (const item of calls.values()) done(item)
      calls.clear()
      const response = {
        id: responseId,
        object: 'response',
        status: incomplete === null ? 'completed' : 'incomplete',
        incomplete_details: incomplete === null ? null : { reason: incomplete },
        output: [],
        usage: usage ? asUsage(usage) : null,
      }
      emit(incomplete === null ? 'response.completed' : 'response.incomplete', { response })
    },
    take() {
      const taken = events
      events = []
      return taken as ResponseStreamEvent[]
    },
  }
}

function asRaw(item: Item, status: string): RawItem {
  const { id, type, text, refusal, annotations, call } = item
  if (type === 'function_call') {
    const written = status === 'completed' ? text || '{}' : ''
    const extra = call?.extra === undefined ? {} : { extra_content: call.extra }
    return { type, id, call_id: call?.id, name: call?.name, arguments: written, status, ...extra }
  }
  if (type === 'reasoning') {
    return { type, id, summary: [], content: text ? [{ type: 'reasoning_text', text }] : [], status }
  }
  const content = [
    ...(text || !refusal ? [{ type: 'output_text', text, annotations }] : []),
    ...(refusal ? [{ type: 'refusal', refusal }] : []),
  ]
  return { type, id, role: 'assistant', content, status }
}

function asUsage({ input_tokens, output_tokens, total_tokens, cached_tokens, ...rest }: AnswerUsage) {
  return {
    input_tokens,
    output_tokens,
    total_tokens,
    input_tokens_details: { cached_tokens },
    output_tokens_details: { reasoning_tokens: rest.reasoning_tokens },
    ...(typeof rest.cost === 'number' ? { cost: rest.cost } : {}),
  }
}
