import { type ChildProcess, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type DemoModel, startDemoModel } from '../../src/demo-model/server.ts'
import { createTap, type Exchange } from '../../src/gateway/exchange.ts'
import { createGateway, type Gateway, type GatewayAccess } from '../../src/gateway/gateway.ts'
import { readAnswer } from '../../src/gateway/read-answer.ts'
import { streams } from '../golden/streams.ts'
import { testAgent } from '../support/hosted-agents.ts'
import { allFrames, ask, finalOf, ofKind, runsOf, toolsOf, transcriptOf } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

const sha = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex')
const noLog = { error: () => {} }
const KEY = 'k'.repeat(43)

/** Streams recorded from real model servers, if there are any here: one JSON event per line. */
function recordings(): Buffer[] {
  const folder = process.env.WAYMARK_RECORDINGS
  if (!folder) return []
  const names = readdirSync(folder).filter((name) => name.endsWith('.chunks.txt'))
  return names.map((name) => {
    const lines = readFileSync(join(folder, name), 'utf8').split('\n').filter(Boolean)
    return Buffer.from(lines.map((line) => `data: ${line}\n\n`).join(''))
  })
}

/** A model server that answers with given bytes, and keeps what it was sent. */
interface Upstream {
  origin: string
  requests: { method: string; url: string; rawHeaders: string[]; body: Buffer }[]
  answer: { status: number; headers: [string, string][]; chunks: Buffer[]; breaksOff?: boolean }
  server: Server
}

async function startUpstream(): Promise<Upstream> {
  const upstream: Upstream = {
    origin: '',
    requests: [],
    answer: { status: 200, headers: [], chunks: [] },
    server: createServer((received, response) => {
      void (async () => {
        const body = await bytesOf(received)
        const { method = '', url = '', rawHeaders } = received
        upstream.requests.push({ method, url, rawHeaders, body })
        const { status, headers, chunks, breaksOff } = upstream.answer
        response.writeHead(status, headers.flat())
        for (const chunk of chunks) {
          response.write(chunk)
          await new Promise((resolve) => setImmediate(resolve))
        }
        if (breaksOff) response.destroy()
        else response.end()
      })()
    }),
  }
  upstream.server.listen(0, '127.0.0.1')
  await once(upstream.server, 'listening')
  upstream.origin = `http://127.0.0.1:${(upstream.server.address() as AddressInfo).port}`
  return upstream
}

async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

describe('the gateway', () => {
  let upstream: Upstream
  let server: Server
  let port: number
  let access: GatewayAccess
  let seen: Exchange[]

  beforeAll(async () => {
    upstream = await startUpstream()
    const gateway: Gateway = createGateway({ access: (key) => (key === KEY ? access : null), log: noLog })
    server = createServer((received, response) => void gateway.serve(received, response))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    port = (server.address() as AddressInfo).port
  })
  afterAll(() => {
    for (const one of [server, upstream.server]) {
      one.closeAllConnections()
      one.close()
    }
  })
  afterEach(() => upstream.requests.splice(0))

  const observing = (observe?: GatewayAccess['observe']) => {
    // An exchange of an earlier test may be observed late.
    const own: typeof seen = []
    seen = own
    access = {
      upstreams: { openai: upstream.origin, anthropic: upstream.origin },
      observe: (exchange) => {
        own.push(exchange)
        return observe?.(exchange)
      },
    }
  }

  async function send(
    path: string,
    options: { method?: string; headers?: Record<string, string>; body?: Buffer } = {},
  ): Promise<{ status: number; rawHeaders: string[]; body: Buffer }> {
    const { method = 'POST', headers = {}, body } = options
    const sent = request({ port, path, method, headers })
    sent.end(body)
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    return { status: answer.statusCode ?? 0, rawHeaders: answer.rawHeaders, body: await bytesOf(answer) }
  }

  const streamed = (events: readonly unknown[]) =>
    Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''))

  it('[G1] passes bodies on unchanged in both directions, however they are compressed and split', async () => {
    observing()
    const bodies = [
      Buffer.alloc(0),
      randomBytes(200_000),
      Buffer.from('{"model":"a","input":"ü"}'),
      ...Object.values(streams).map(streamed),
      ...recordings(),
    ]
    const packed = { identity: (bytes: Buffer) => bytes, gzip: gzipSync, br: brotliCompressSync }
    const one = fc.record({
      sent: fc.constantFrom(...bodies),
      answered: fc.constantFrom(...bodies),
      encoding: fc.constantFrom('identity' as const, 'gzip' as const, 'br' as const),
      piece: fc.integer({ min: 1, max: 5000 }),
      path: fc.constantFrom('/v1/responses?beta=true', '/v1/messages', '/v1/models', '/v1/chat/completions'),
      status: fc.constantFrom(200, 400, 429, 500),
    })
    await fc.assert(
      fc.asyncProperty(one, async ({ sent, answered, encoding, piece, path, status }) => {
        const pack = packed[encoding]
        const body = pack(answered)
        const step = Math.max(piece, Math.ceil(body.length / 50))
        const chunks = Array.from({ length: Math.ceil(body.length / step) }, (_, n) =>
          body.subarray(n * step, (n + 1) * step),
        )
        const headers: [string, string][] = [
          ['Content-Type', 'text/event-stream'],
          ['X-Request-Id', 'abc'],
          ['Retry-After', '7'],
        ]
        if (encoding !== 'identity') headers.push(['Content-Encoding', encoding])
        upstream.answer = { status, headers, chunks }
        const outgoing = pack(sent)
        const answer = await send(`/gateway/${KEY}/openai${path}`, {
          headers: { 'Content-Encoding': encoding, 'Content-Length': String(outgoing.length) },
          body: outgoing,
        })
        const received = upstream.requests.at(-1)
        expect(received?.url).toBe(path)
        expect(sha(received?.body ?? '')).toBe(sha(outgoing))
        expect(answer.status).toBe(status)
        expect(sha(answer.body)).toBe(sha(body))
        expect(answer.rawHeaders).toEqual(expect.arrayContaining(headers.flat()))
      }),
      { numRuns: 60 },
    )
  })

  it('[G1] passes every known stream on unchanged, as a request and as an answer', async () => {
    observing()
    const bodies = [...Object.values(streams).map(streamed), ...recordings()]
    for (const body of bodies) {
      upstream.answer = { status: 200, headers: [['Content-Type', 'text/event-stream']], chunks: [body] }
      const answer = await send(`/gateway/${KEY}/openai/v1/responses`, { body })
      expect(sha(upstream.requests.at(-1)?.body ?? '')).toBe(sha(body))
      expect(sha(answer.body)).toBe(sha(body))
    }
    await expect.poll(() => seen.length).toBe(bodies.length)
  })

  it('[G1] passes every header on but those of the connection and our own', async () => {
    observing()
    upstream.answer = {
      status: 201,
      headers: [
        ['Set-Cookie', 'a=1'],
        ['Set-Cookie', 'b=2'],
      ],
      chunks: [],
    }
    const headers = {
      'Anthropic-Beta': 'one,two',
      'OpenAI-Organization': 'org',
      Authorization: 'Bearer secret',
      'X-Waymark-Key': KEY,
      Connection: 'x-of-the-hop',
      'X-Of-The-Hop': 'gone',
    }
    const answer = await send('/gateway/anthropic/v1/messages', { headers, body: Buffer.from('{}') })
    const [received] = upstream.requests
    const text = received?.rawHeaders.join('\n') ?? ''
    expect(text).toContain('Anthropic-Beta\none,two')
    expect(text).toContain('OpenAI-Organization\norg')
    expect(text).toContain('Authorization\nBearer secret')
    expect(text).not.toMatch(/waymark|of-the-hop/i)
    expect(text).toContain(new URL(upstream.origin).host)
    expect(answer.rawHeaders.filter((one) => one === 'Set-Cookie')).toHaveLength(2)
    expect(answer.status).toBe(201)
  })

  it('[G2] refuses a request without a key, or for a server that the key does not name', async () => {
    observing()
    const answers = [
      await send('/gateway/openai/v1/responses'),
      await send(`/gateway/${'o'.repeat(43)}/openai/v1/responses`),
      await send(`/gateway/${KEY}/elsewhere/v1/responses`),
      await send(`/gateway/${KEY}/openai`),
    ]
    expect(answers.map(({ status }) => status)).toEqual([401, 503, 404, 401])
    const odd = [
      `/gateway/${KEY}/openai/@evil.example/x`,
      `/gateway/${KEY}/openai//evil.example/x`,
      `/gateway/${KEY}/__proto__/x`,
    ]
    for (const path of odd) await send(path)
    for (const { rawHeaders } of upstream.requests)
      expect(rawHeaders.join('\n')).toContain(new URL(upstream.origin).host)
  })

  it('[G1] answers a request for a WebSocket so that agents fall back to event streams', async () => {
    observing()
    const socket = connect(port, '127.0.0.1')
    socket.write(
      `GET /gateway/${KEY}/openai/v1/responses HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    )
    const [bytes] = (await once(socket, 'data')) as [Buffer]
    expect(bytes.toString()).toContain('426')
    socket.destroy()
  })

  it('[G3] continues the stream when recording fails, hangs or throws', async () => {
    const body = streamed(streams['plain text'] ?? [])
    upstream.answer = { status: 200, headers: [['Content-Type', 'text/event-stream']], chunks: [body] }
    const observers: NonNullable<GatewayAccess['observe']>[] = [
      () => {
        throw new Error('the ledger is full')
      },
      () => Promise.reject(new Error('the ledger is gone')),
      () => new Promise(() => {}),
    ]
    for (const observe of observers) {
      observing(observe)
      const answer = await send(`/gateway/${KEY}/openai/v1/responses`, { body: Buffer.from('{}') })
      expect(sha(answer.body)).toBe(sha(body))
    }
  })

  it('[G3] holds a call until the files are saved, and never holds text', async () => {
    const saving = Promise.withResolvers<void>()
    observing(() => saving.promise)
    const text = Buffer.from(
      'data: {"type":"response.output_text.delta","parallel_tool_calls":true,"delta":"a"}\n\n',
    )
    const call = Buffer.from('data: {"item":{"type":"function_call"}}\n\n')
    upstream.answer = {
      status: 200,
      headers: [['Content-Type', 'text/event-stream']],
      chunks: [text, call.subarray(0, 30), call.subarray(30)],
    }
    const sent = request({ port, path: `/gateway/${KEY}/openai/v1/responses`, method: 'POST' })
    sent.end('{}')
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    let received = ''
    answer.on('data', (bytes: Buffer) => (received += bytes.toString()))
    await expect.poll(() => received).toContain('"delta":"a"')
    expect(received).not.toContain('function_call"')
    saving.resolve()
    await once(answer, 'end')
    expect(received).toBe(text.toString() + call.toString())
  })

  it('[G1] passes a body without a length on, and a path as it was written', async () => {
    observing()
    upstream.answer = { status: 200, headers: [], chunks: [] }
    const path = `/v1/a/../b/%2e%2e/c'"{x}/responses?q='`
    const socket = connect(port, '127.0.0.1')
    socket.write(
      `POST /gateway/${KEY}/openai${path} HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    )
    await once(socket, 'data')
    socket.destroy()
    expect(upstream.requests).toMatchObject([{ url: path, body: Buffer.from('hello') }])
    await expect.poll(() => seen.length).toBe(1)
  })

  it('[G3] ends an exchange that the agent breaks off while a call is held, and records it as cancelled', async () => {
    observing(() => new Promise(() => {}))
    upstream.answer = {
      status: 200,
      headers: [['Content-Type', 'text/event-stream']],
      chunks: [Buffer.from('data: {"type":"function_call"}\n\n'), Buffer.from('data: {}\n\n')],
    }
    const sent = request({ port, path: `/gateway/${KEY}/openai/v1/responses`, method: 'POST' })
    sent.on('error', () => {})
    sent.end('{}')
    await expect.poll(() => seen.length).toBe(1)
    sent.destroy()
    const answer = await seen[0]?.answer
    expect(await answer?.body.isComplete).toBe(false)
    expect(seen[0]?.isCancelled()).toBe(true)
  })

  it('[G1] breaks the answer off when the model server does', async () => {
    observing()
    upstream.answer = {
      status: 200,
      headers: [['Content-Type', 'text/event-stream']],
      chunks: [Buffer.from('data: {"a"')],
      breaksOff: true,
    }
    await expect(send(`/gateway/${KEY}/openai/v1/responses`, { body: Buffer.from('{}') })).rejects.toThrow()
    await expect.poll(() => seen.length).toBe(1)
    const answer = await seen[0]?.answer
    expect(await answer?.body.isComplete).toBe(false)
    expect(await answer?.body.text).toBe('data: {"a"')
  })

  it('[G2] keeps at most 192 MB of bodies that are under way together', async () => {
    const piece = Buffer.alloc(1024 * 1024, 'a')
    const taps = Array.from({ length: 4 }, () => createTap(undefined))
    for (const tap of taps) for (let n = 0; n < 60; n++) tap.push(piece)
    for (const tap of taps) tap.end(true)
    const lengths = await Promise.all(taps.map(async ({ text }) => (await text)?.length ?? null))
    expect(lengths).toEqual([60, 60, 60, null].map((megabytes) => megabytes && megabytes * piece.length))
    // Later ones have room again.
    const later = createTap(undefined)
    later.push(piece)
    later.end(true)
    expect(await later.text).toHaveLength(piece.length)
  })

  it('[G2] passes on but does not keep a body that decompresses to more than 64 MB', async () => {
    observing()
    upstream.answer = {
      status: 200,
      headers: [
        ['Content-Type', 'text/event-stream'],
        ['Content-Encoding', 'gzip'],
      ],
      chunks: [gzipSync(Buffer.alloc(200 * 1024 * 1024))],
    }
    const answer = await send(`/gateway/${KEY}/openai/v1/responses`, { body: Buffer.from('{}') })
    expect(answer.status).toBe(200)
    await expect.poll(() => seen.length).toBe(1)
    expect(await (await seen[0]?.answer)?.body.text).toBeNull()
  })
})

describe('an agent in its own terminal', () => {
  let project: string
  let model: DemoModel
  let server: TestServer
  const script = fileURLToPath(new URL('../support/terminal-agent.ts', import.meta.url))
  const waymark = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
  const flag = '--disable-warning=ExperimentalWarning'
  const SECRET = `agents-own-${randomBytes(12).toString('hex')}`

  beforeAll(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'waymark-terminal-'))
    symlinkSync(process.execPath, join(folder, 'claude-test'))
    project = join(folder, 'project')
    mkdirSync(project)
    model = await startDemoModel()
    server = await startTestServer({ project })
  })
  afterAll(async () => {
    await server.close()
    await model.close()
    rmSync(join(project, '..'), { recursive: true, force: true })
  })

  function start(messages: string[], environment: Record<string, string> = {}): ChildProcess {
    // An agent that is known to offer tools: a request without any is for a title.
    const agent = [join(project, '../claude-test'), flag, script, ...messages]
    return spawn(process.execPath, [flag, waymark, 'run', '--url', server.url, '--', ...agent], {
      cwd: project,
      stdio: ['ignore', 'inherit', 'pipe'],
      env: {
        ...process.env,
        WAYMARK_TOKEN: server.token,
        OPENAI_BASE_URL: model.url,
        ANTHROPIC_BASE_URL: model.url.replace(/\/v1$/, ''),
        AGENT_KEY: SECRET,
        ...environment,
      },
    })
  }

  /** Runs the agent to its end; returns the conversations that were recorded. */
  async function run(messages: string[], environment: Record<string, string> = {}): Promise<string[]> {
    const child = start(messages, environment)
    let printed = ''
    child.stderr?.on('data', (bytes: Buffer) => (printed += bytes.toString()))
    const [code] = (await once(child, 'close')) as [number]
    expect(code, printed).toBe(0)
    const ids = [...printed.matchAll(/conv_[0-9a-z]{26}/g)].map(([id]) => id)
    for (const id of ids) await expect.poll(async () => (await server.client.queue(id)).active).toBeNull()
    return ids
  }

  const shell = (command: string) => `!shell ${JSON.stringify({ command })}`

  it.each(['responses', 'anthropic'])(
    '[G4] becomes a conversation with transcript, files and requests: %s',
    async (protocol) => {
      const file = (name: string) => `${protocol}-${name}.txt`
      const first = [
        shell(`echo one > ${file('one')}; echo printed`),
        shell(`echo two > ${file('two')}`),
        '!say "all done"',
      ]
      const [id = '', ...others] = await run(['title of this', first.join('\n'), '!say "second answer"'], {
        PROTOCOL: protocol,
      })
      expect(others).toEqual([])
      const frames = await allFrames(server, id)
      const messages = ofKind(frames, 'message.user')
      expect(messages.map(({ content }) => content)).toEqual([first.join('\n'), '!say "second answer"'])
      expect(messages.every(({ checkpoint_id }) => checkpoint_id !== undefined)).toBe(true)
      const runs = runsOf(transcriptOf(frames))
      expect(runs.map(({ status }) => status)).toEqual(['completed', 'completed'])
      const calls = toolsOf(runs[0])
      expect(calls.map(({ name, output }) => [name, String(output).trim()])).toEqual([
        ['shell', 'printed'],
        ['shell', ''],
      ])
      const edits = ofKind(frames, 'file.edit').map(({ path, tool_call_id }) => [path, tool_call_id])
      expect(edits).toEqual([
        [file('one'), calls[0]?.toolCallId],
        [file('two'), calls[1]?.toolCallId],
      ])
      expect(ofKind(frames, 'final').map(({ final }) => final.response_text)).toEqual([
        'all done',
        'second answer',
      ])

      const { items } = await server.client.responses(id)
      // The request for a title is on record, and shows nothing.
      expect(items).toHaveLength(5)
      const last = await server.client.response(id, items[0]?.response_id ?? '')
      expect(JSON.stringify(last.request)).toContain('second answer')
      expect(JSON.stringify(last.response)).toContain('second')

      const before = ofKind(frames, 'workspace.checkpoint').find(({ label }) => label.startsWith('After: '))
      await server.client.restore(id, { checkpoint_id: before?.checkpoint_id ?? '' })
      expect(existsSync(join(project, file('one')))).toBe(true)
      expect(existsSync(join(project, file('two')))).toBe(false)

      const fork = await server.client.fork(id, { message_id: messages[1]?.message_id ?? '' })
      const answer = await ask(server, fork.id, '!say "from the fork"')
      expect(finalOf(answer).response_text).toContain('from the fork')
    },
  )

  it('[G4] continues the conversation of a session that is resumed', async () => {
    const environment = { SESSION: 'a-session-that-returns' }
    const [first] = await run(['!say "one"'], environment)
    const [second] = await run(['!say "two"'], environment)
    expect(second).toBe(first)
    const contents = ofKind(await allFrames(server, first ?? ''), 'message.user').map(
      ({ content }) => content,
    )
    expect(contents).toEqual(['!say "one"', '!say "two"'])
  })

  it('[G4] continues in a new conversation after the first was deleted', async () => {
    const environment = { SESSION: 'deleted-meanwhile' }
    const [first = ''] = await run(['!say "one"'], environment)
    await server.client.deleteConversation(first)
    const [second = ''] = await run(['!say "two"'], environment)
    expect(second).not.toBe(first)
    expect(ofKind(await allFrames(server, second), 'final')[0]?.final.response_text).toBe('two')
  })

  it('[R2] ends the run when a person stops it, and records what the agent does afterwards', async () => {
    const child = start([`!wait 20\n!say 200\n${shell('true')}`, '!say "after"'], { SESSION: 'stopped' })
    const newest = async () => (await server.client.listConversations()).items[0]
    await expect.poll(async () => (await newest())?.title).toContain('!wait 20')
    const id = (await newest())?.id ?? ''
    await expect.poll(async () => (await server.client.queue(id)).active).not.toBeNull()
    await server.client.stop(id)
    await expect
      .poll(async () => ofKind(await allFrames(server, id), 'final')[0]?.final.status)
      .toBe('cancelled')
    await once(child, 'close')
    const contents = async () =>
      ofKind(await allFrames(server, id), 'message.user').map(({ content }) => content)
    await expect.poll(contents).toContain('!say "after"')
  })

  it('[G5] stores the credentials of agents nowhere', async () => {
    await run([shell('echo checked > checked.txt'), '!fail 401 1'], {}).catch(() => [])
    const found: string[] = []
    const visit = (folder: string) => {
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        const path = join(folder, entry.name)
        if (entry.isDirectory()) visit(path)
        else if (entry.isFile() && readFileSync(path).includes(SECRET)) found.push(path)
      }
    }
    for (const folder of [server.config.dataDir, server.config.privateDir]) visit(folder)
    expect(found).toEqual([])
    const metrics = await (await server.call('/metrics')).text()
    expect(metrics).not.toContain(SECRET)
  })

  it('[G5] redacts a repeated credential before it shortens the error', async () => {
    const key = `sk-${'a'.repeat(40)}`
    const body = createTap(undefined)
    body.push(Buffer.from('x'.repeat(965) + key))
    body.end(true)
    const answer = { status: 401, beganAt: 0, contentType: 'text/plain', body }
    const exchange = { protocol: 'responses' as const, isCancelled: () => false, credentials: [key] }
    const { end } = await readAnswer({ ...exchange, answer: Promise.resolve(answer) }, 'resp_1', () => {})
    expect(end.error?.message).toContain('x')
    expect(JSON.stringify(end)).not.toContain('sk-a')
  })

  it('[G4] ends the run when the agent is killed, and marks the outcome of its call as unknown', async () => {
    const child = start([shell('sleep 30')], { SESSION: 'killed' })
    const conversations = async () => (await server.client.listConversations()).items
    await expect.poll(async () => (await conversations())[0]?.title).toContain('sleep 30')
    const id = (await conversations())[0]?.id ?? ''
    await expect.poll(async () => ofKind(await allFrames(server, id), 'tool.status').length).toBe(1)
    child.kill('SIGTERM')
    await once(child, 'close')
    await expect.poll(async () => ofKind(await allFrames(server, id), 'final').length).toBe(1)
    const [call] = toolsOf(runsOf(transcriptOf(await allFrames(server, id)))[0])
    expect(call?.output).toBe('Outcome unknown.')
    expect((await server.client.queue(id)).active).toBeNull()
  })

  it('refuses another model server to a token without the scope for it', async () => {
    const token = await server.tokenFor('default', ['conversations:write', 'workspace:write'])
    const put = (upstream: string) =>
      server.call('/terminals/0123456789', {
        method: 'PUT',
        headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
        body: JSON.stringify({ key: 'k'.repeat(43), agent: 'x', upstreams: { openai: upstream } }),
      })
    expect((await put('https://api.openai.com/v1')).status).toBe(200)
    expect((await put('http://169.254.169.254/')).status).toBe(403)
  })
})

describe('a hosted agent', () => {
  let project: string
  let sessions: string
  let model: DemoModel
  let server: TestServer

  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-hosted-traffic-'))
    sessions = mkdtempSync(join(tmpdir(), 'waymark-sessions-'))
    model = await startDemoModel()
    const { agents } = testAgent(sessions)
    const env = { ...agents.test?.env, OPENAI_BASE_URL: model.url }
    server = await startTestServer({ project, agents: { test: { command: '', ...agents.test, env } } })
  })
  afterAll(async () => {
    await server.close()
    await model.close()
    for (const folder of [project, sessions]) rmSync(folder, { recursive: true, force: true })
  })

  it('[G1] has its model requests on record', async () => {
    const { id } = await server.client.createConversation({ agent: 'test' })
    const frames = await ask(
      server,
      id,
      '!model {"model":"demo","input":"!say \\"by the model\\"","stream":true}',
    )
    expect(finalOf(frames).response_text).toContain('by the model')
    const { items } = await server.client.responses(id)
    expect(items).toHaveLength(1)
    const record = await server.client.response(id, items[0]?.response_id ?? '')
    expect(JSON.stringify(record.request)).toContain('by the model')
    expect(record.status).toBe('completed')
  })

  it('[G3] gets its next call after a checkpoint has the changes of the one before', async () => {
    const { id } = await server.client.createConversation({ agent: 'test' })
    const commands = [0, 1, 2, 3, 4].map((n) => `echo ${n} > ahead.txt`)
    const frames = await ask(server, id, `!ahead ${JSON.stringify(commands)}`)
    const edits = ofKind(frames, 'file.edit')
    expect(edits.map(({ path }) => path)).toEqual(commands.map(() => 'ahead.txt'))
    const calls = toolsOf(runsOf(transcriptOf(frames)).at(-1))
    expect(edits.map(({ tool_call_id }) => tool_call_id)).toEqual(calls.map(({ toolCallId }) => toolCallId))
    const after = ofKind(frames, 'workspace.checkpoint').filter(({ label }) => label.startsWith('After: '))
    await server.client.restore(id, { checkpoint_id: after[2]?.checkpoint_id ?? '' })
    expect(readFileSync(join(project, 'ahead.txt'), 'utf8')).toBe('2\n')
  })
})
