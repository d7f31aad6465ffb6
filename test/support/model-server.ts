import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A real HTTP model server that answers each request with the next part and records the requests. */
export interface ModelServer {
  url: string
  requests: ModelRequestBody[]
  /** The `Authorization` of each request. */
  keys: string[]
  close(): Promise<void>
}

export interface ModelRequestBody {
  model: string
  input: ({ type?: string; role?: string } & Record<string, unknown>)[]
  tools: { name: string }[]
  instructions: string
  previous_response_id?: string | null
}

export type Part =
  /** Streams the events, then ends the response. */
  | { events: readonly ModelEvent[] }
  /** Streams the events, then breaks the connection. */
  | { events: readonly ModelEvent[]; breaksOff: true }
  /** Streams the events, then stays silent until the client disconnects. */
  | { events: readonly ModelEvent[]; hangs: true }
  | { status: number; headers?: Record<string, string>; body?: unknown }

export type ModelEvent = { type: string } & Record<string, unknown>

/** Starts a model server. After the last part it answers with a short text. */
export async function startModelServer(parts: Part[]): Promise<ModelServer> {
  const requests: ModelRequestBody[] = []
  const keys: string[] = []
  const server = createServer((request, answer) => {
    void (async () => {
      const chunks: Buffer[] = []
      for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
      // The list of models is asked for once at the start.
      if (request.method === 'GET') return void answer.end('{"data":[{"id":"scripted-model"}]}')
      const body = JSON.parse(Buffer.concat(chunks).toString()) as ModelRequestBody
      requests.push(body)
      keys.push(request.headers.authorization ?? '')
      await play(answer, parts.shift() ?? { events: says('The end.') }, body)
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    keys,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function play(answer: ServerResponse, part: Part, body: ModelRequestBody): Promise<void> {
  if ('status' in part) {
    const body = part.body ?? { error: { message: 'no', code: null } }
    answer
      .writeHead(part.status, { 'Content-Type': 'application/json', ...part.headers })
      .end(JSON.stringify(body))
    return
  }
  answer.writeHead(200, { 'Content-Type': 'text/event-stream' })
  for (const given of part.events) {
    const event = continued(given, body)
    answer.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  }
  if ('hangs' in part) return
  if (!('breaksOff' in part)) return void answer.end()
  // Flush what was written before breaking the connection.
  await new Promise((resolve) => answer.write(': \n\n', resolve))
  setTimeout(() => answer.destroy(), 20)
}

/** A server that continues from a response names it. */
function continued(event: ModelEvent, { previous_response_id = null }: ModelRequestBody): ModelEvent {
  if (event.type !== 'response.created') return event
  return { ...event, response: { ...(event.response as object), previous_response_id } }
}

let count = 0

export function response(
  items: readonly ModelEvent[],
  end: Partial<Record<string, unknown>> = {},
): ModelEvent[] {
  const id = `resp_${++count}`
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
  const base = { id, object: 'response', status: 'in_progress', output: [] }
  return [
    { type: 'response.created', response: base },
    ...items,
    { type: 'response.completed', response: { ...base, status: 'completed', usage, ...end } },
  ]
}

/** An item's events between its `added` and `done`. */
export function item(
  output_index: number,
  done: Record<string, unknown>,
  events: readonly ModelEvent[] = [],
): ModelEvent[] {
  return [
    {
      type: 'response.output_item.added',
      output_index,
      item: { ...done, status: 'in_progress', content: [] },
    },
    ...events.map((event) => ({ output_index, item_id: done.id, ...event })),
    { type: 'response.output_item.done', output_index, item: { status: 'completed', ...done } },
  ]
}

export function says(text: string): ModelEvent[] {
  return response(message(0, text))
}

export function message(output_index: number, text: string): ModelEvent[] {
  const done = {
    id: `msg_${++count}`,
    type: 'message',
    role: 'assistant',
    content: [{ type: 'output_text', text, annotations: [] }],
  }
  return item(output_index, done, [{ type: 'response.output_text.delta', content_index: 0, delta: text }])
}

export function calls(name: string, args: unknown, call_id = `call_${++count}`): ModelEvent[] {
  return response(functionCall(0, name, args, call_id))
}

export function functionCall(
  output_index: number,
  name: string,
  args: unknown,
  call_id: string,
): ModelEvent[] {
  const text = typeof args === 'string' ? args : JSON.stringify(args)
  return item(output_index, { id: `fc_${++count}`, type: 'function_call', call_id, name, arguments: text }, [
    { type: 'response.function_call_arguments.delta', delta: text },
    { type: 'response.function_call_arguments.done', arguments: text },
  ])
}
