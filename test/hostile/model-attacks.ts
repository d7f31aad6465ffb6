import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'

/** How a hostile model server answers one request. `size` is in megabytes. */
export type Attack = (answer: ServerResponse, size: number, random: () => number) => void | Promise<void>

const EVENTS = { 'Content-Type': 'text/event-stream' }
const MEGABYTE = 'x'.repeat(1024 * 1024)
/** Cached, since compressing takes a second. */
let bomb: Buffer | undefined

/** Writes with backpressure, so as not to fill this process's memory; stops when the client disconnects. */
async function pour(answer: ServerResponse, piece: string | Buffer, times: number): Promise<void> {
  for (let i = 0; i < times && !answer.destroyed; i++) {
    if (!answer.write(piece))
      await Promise.race([once(answer, 'drain'), once(answer, 'close')]).catch(() => {})
  }
}

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`
const created = event({ type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } })
const done = (more: object = {}) =>
  event({
    type: 'response.completed',
    response: { id: 'r', status: 'completed', output: [], usage: null, ...more },
  })
const strange = (random: () => number): unknown => {
  const values = [
    null,
    true,
    -1,
    1e308,
    '',
    'x'.repeat(5000),
    '\ud800',
    '\u0000',
    [],
    {},
    { length: -1 },
    [[[]]],
    '__proto__',
    0.5,
  ]
  return values[Math.floor(random() * values.length)]
}

const TYPES = [
  'response.output_item.added',
  'response.output_item.done',
  'response.output_text.delta',
  'response.function_call_arguments.delta',
  'response.function_call_arguments.done',
  'response.reasoning_summary_text.delta',
  'response.refusal.done',
  'response.mcp_call.failed',
  'response.shell_call_command.added',
  'response.code_interpreter_call_code.done',
  'response.image_generation_call.partial_image',
  'response.output_text.annotation.added',
  'response.completed',
  'response.failed',
  'error',
  'response.unknown.thing',
]

export const attacks: Record<string, Attack> = {
  'an endless error body': async (answer, size, random) => {
    answer.writeHead([400, 401, 404, 429, 500, 503][Math.floor(random() * 6)] ?? 500, {
      'Content-Type': 'application/json',
    })
    answer.write('{"error": {"message": "')
    await pour(answer, MEGABYTE, size)
    answer.end('"}}')
  },
  'an endless line': async (answer, size) => {
    answer.writeHead(200, EVENTS).write('data: "')
    await pour(answer, MEGABYTE, size)
    answer.end()
  },
  'an endless event': async (answer, size) => {
    answer.writeHead(200, EVENTS)
    await pour(answer, `data: ${'x'.repeat(1000)}\n`.repeat(1000), size)
    answer.end()
  },
  'endless arguments': async (answer, size) => {
    answer.writeHead(200, EVENTS).write(created)
    const item = { type: 'function_call', id: 'i', call_id: 'c', name: 'read_file', arguments: '' }
    answer.write(event({ type: 'response.output_item.added', output_index: 0, item }))
    const delta = event({
      type: 'response.function_call_arguments.delta',
      output_index: 0,
      item_id: 'i',
      delta: 'x'.repeat(100_000),
    })
    await pour(answer, delta, size * 10)
    answer.end(done())
  },
  'endless text': async (answer, size) => {
    answer.writeHead(200, EVENTS).write(created)
    const delta = event({
      type: 'response.output_text.delta',
      output_index: 0,
      item_id: 'i',
      content_index: 0,
      delta: 'word '.repeat(20_000),
    })
    await pour(answer, delta, size * 10)
    answer.end(done())
  },
  'endless items': async (answer, size) => {
    answer.writeHead(200, EVENTS).write(created)
    for (let i = 0; i < size * 500 && !answer.destroyed; i++) {
      await pour(
        answer,
        event({
          type: 'response.output_item.added',
          output_index: i,
          item: { type: 'message', id: `i${i}` },
        }),
        1,
      )
    }
    answer.end(done())
  },
  'malformed JSON': (answer, _, random) => {
    const bad = ['data: {\n\n', 'data: {"type":\n\n', 'data: nonsense\n\n', 'data: [1,2\n\n'][
      Math.floor(random() * 4)
    ]
    answer.writeHead(200, EVENTS).end(created + bad + done())
  },
  'no events at all': (answer, _, random) => {
    const type = random() < 0.5 ? 'text/html' : 'text/event-stream'
    answer.writeHead(200, { 'Content-Type': type }).end('<html>'.repeat(1000))
  },
  'nested too deep': (answer) => {
    answer.writeHead(200, EVENTS)
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    answer.end(
      `${created}data: {"type":"response.completed","response":{"id":"r","output":[],"x":${deep}}}\n\n`,
    )
  },
  'events of any shape': (answer, _, random) => {
    answer.writeHead(200, EVENTS)
    let text = random() < 0.8 ? created : ''
    for (let i = 0; i < 20; i++) {
      const fields = [
        'output_index',
        'item_id',
        'content_index',
        'delta',
        'item',
        'response',
        'arguments',
        'part',
        'code',
        'command',
        'command_index',
        'annotation',
        'summary_index',
        'message',
        'partial_image_b64',
        'sequence_number',
      ]
      const given = fields.flatMap((name) =>
        random() < 0.6 ? [[name, random() < 0.5 ? strange(random) : name.endsWith('index') ? 0 : 'x']] : [],
      )
      text += event({ type: TYPES[Math.floor(random() * TYPES.length)], ...Object.fromEntries(given) })
    }
    answer.end(text + (random() < 0.5 ? done({ usage: strange(random), output: strange(random) }) : ''))
  },
  'huge names': (answer) => {
    answer.writeHead(200, EVENTS)
    const long = 'n'.repeat(500_000)
    const item = { type: `message_${long}`, id: long, role: long, status: long, name: long }
    const added = event({ type: 'response.output_item.added', output_index: 0, item })
    answer.end(created + added + event({ type: 'response.output_item.done', output_index: 0, item }) + done())
  },
  'a hostile call': (answer, _, random) => {
    const args = [
      '{"path":"../../etc/passwd"}',
      '{"path":"/etc/passwd"}',
      '{"__proto__":{"x":1}}',
      '[]',
      'null',
      '{"path":"\\u0000"}',
      '{"command":1}',
      '{',
    ][Math.floor(random() * 8)]
    const name = ['read_file', 'write_to_file', 'nothing', '__proto__', 'constructor', 'x'.repeat(1000)][
      Math.floor(random() * 6)
    ]
    const item = {
      type: 'function_call',
      id: 'i',
      call_id: random() < 0.5 ? 'c' : 'c'.repeat(5000),
      name,
      arguments: args,
    }
    answer
      .writeHead(200, EVENTS)
      .end(created + event({ type: 'response.output_item.done', output_index: 0, item }) + done())
  },
  'a redirect to another origin': (answer, _, random) => {
    const status = [301, 302, 303, 307, 308][Math.floor(random() * 5)] ?? 302
    const to = ['http://127.0.0.1:9/stolen', 'http://localhost:9/', 'file:///etc/passwd', '//evil.example/'][
      Math.floor(random() * 4)
    ]
    answer.writeHead(status, { Location: to }).end()
  },
  'a redirect loop': (answer) => void answer.writeHead(307, { Location: '/v1/responses' }).end(),
  'no answer': () => {},
  'silence after the first event': (answer) => void answer.writeHead(200, EVENTS).write(created),
  'endless keepalive comments': async (answer) => {
    answer.writeHead(200, EVENTS).write(created)
    while (!answer.destroyed) {
      answer.write(': still here\n\n')
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  },
  'a broken connection': (answer, _, random) => {
    if (random() < 0.5) return void answer.destroy()
    answer.writeHead(200, EVENTS).write(created)
    setTimeout(() => answer.destroy(), 10)
  },
  'a decompression bomb': (answer, size) => {
    bomb ??= gzipSync(Buffer.alloc(size * 1024 * 1024, 120))
    answer.writeHead(200, { ...EVENTS, 'Content-Encoding': 'gzip' }).end(bomb)
  },
  'an error whose message is not text': (answer) => {
    const error = '{"error": {"message": {"toString": 1, "valueOf": 1}, "code": {"a": 1}, "param": []}}'
    answer.writeHead(400, { 'Content-Type': 'application/json' }).end(error)
  },
  'strange headers': (answer) => {
    answer
      .writeHead(429, { 'Retry-After': '-1e999', 'X-Long': 'h'.repeat(10_000), 'Content-Type': 'nonsense' })
      .end('{"error": 5}')
  },
}

/** Starts a model server that answers each request with the attack named in its message. */
export async function startHostileModel(
  size: number,
  random: () => number,
): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer((request, answer) => {
    answer.setMaxListeners(0).on('error', () => {})
    void (async () => {
      const chunks: Buffer[] = []
      for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
      const body = Buffer.concat(chunks).toString()
      const name = [...body.matchAll(/ATTACK:([a-zA-Z ]+):/g)].at(-1)?.[1] ?? ''
      await attacks[name]?.(answer, size, random)
    })().catch(() => answer.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
