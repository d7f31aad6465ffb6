import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../../src/protocol/ids.ts'
import { jsonBody, startTestServer, type TestServer } from '../support/server.ts'
import { rounds } from '../support/soak.ts'

interface Route {
  method: string
  path: string
}

describe('requests', () => {
  let server: TestServer
  let own: string
  let routes: Route[]
  let foreign: string
  let powerless: string

  beforeAll(async () => {
    server = await startTestServer()
    own = (await server.client.createConversation({ title: 'own' })).id
    foreign = await server.tokenFor('other', [
      'conversations:read',
      'conversations:write',
      'workspace:write',
      'records:read',
      'admin',
    ])
    powerless = await server.tokenFor('default', [])
    const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { security?: unknown[] }>>
    }
    routes = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, { security }]) =>
        security?.length === 0 ? [] : [{ method: method.toUpperCase(), path: `/api/v1${path}` }],
      ),
    )
    for (const alias of [
      '/commands/create-thread',
      '/commands/send-message',
      '/commands/fork-thread',
      '/api/v1/commands/send-message',
    ]) {
      routes.push({ method: 'POST', path: alias })
    }
    for (const name of ['approve', 'reset', 'restore']) {
      routes.push({ method: 'POST', path: `/api/dialogs/{id}/${name}` })
    }
  })
  afterAll(() => server.close())

  const filled = (path: string, id = own) =>
    path
      .replace('{id}', id)
      .replace('{other}', id)
      .replace(/\{(run_id|response_id|message_id)\}/, newId('run'))
      .replaceAll(/\{\w+\}/g, 'x'.repeat(40))

  /** Sends a request with only the first bytes of a 1 MB body, and returns the status of the response. */
  async function half(
    { method, path }: Route,
    token: string | null,
  ): Promise<{ status: number; isClosed: boolean }> {
    const { hostname, port } = new URL(server.url)
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {})
    const head = [
      `${method} ${filled(path)}?path=a HTTP/1.1`,
      `Host: ${hostname}:${port}`,
      ...(token === null ? [] : [`Authorization: Bearer ${token}`]),
      ...(method === 'GET' ? [] : ['Content-Type: application/json', 'Content-Length: 1000000']),
    ]
    socket.write(`${head.join('\r\n')}\r\n\r\n${method === 'GET' ? '' : '{"content": "'}`)
    let text = ''
    socket.on('data', (chunk) => (text += chunk.toString('latin1')))
    await expect.poll(() => text, { timeout: 10_000, interval: 5 }).toMatch(/^HTTP\/1\.1 \d+ /)
    const status = Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])
    let isClosed = method === 'GET'
    if (!isClosed) {
      await Promise.race([once(socket, 'close'), new Promise((resolve) => setTimeout(resolve, 5000).unref())])
      isClosed = socket.destroyed || socket.readableEnded
    }
    socket.destroy()
    return { status, isClosed }
  }

  async function silentReader(path: string): Promise<Socket> {
    const { hostname, port } = new URL(server.url)
    const socket = connect(Number(port), hostname)
    await once(socket, 'connect')
    socket.pause()
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${server.token}\r\n\r\n`,
    )
    return socket
  }

  it('[T6] [T10] are rejected and closed on every route without a valid token, before the body is read', async () => {
    expect(routes.length).toBeGreaterThan(45)
    const answers = await Promise.all(
      routes.flatMap((route) =>
        [null, 'wrong', `${server.token}x`].map(async (token) => ({
          ...route,
          token,
          ...(await half(route, token)),
        })),
      ),
    )
    expect(answers.filter(({ status, isClosed }) => status !== 401 || !isClosed)).toEqual([])
  })

  it('[T6] get 404 on every conversation route of another tenant, before the body is read', async () => {
    const ofConversations = routes.filter(({ path }) => path.includes('/conversations/{id}'))
    const answers = await Promise.all(
      ofConversations.map(async (route) => ({ ...route, ...(await half(route, foreign)) })),
    )
    expect(answers.filter(({ status, isClosed }) => status !== 404 || !isClosed)).toEqual([])
  })

  it('[T6] are rejected on every route without the scope, before the body is read', async () => {
    const scoped = routes.filter(({ path }) => path !== '/api/v1/about')
    const answers = await Promise.all(
      scoped.map(async (route) => ({ ...route, ...(await half(route, powerless)) })),
    )
    expect(answers.filter(({ status, isClosed }) => status !== 403 || !isClosed)).toEqual([])
  })

  it('[T11] return no raw records to a read-only token', async () => {
    const reader = await server.tokenFor('default', ['conversations:read'])
    const asReader = { headers: { Authorization: `Bearer ${reader}` } }
    const { headers, ...init } = jsonBody({ content: 'hello' })
    await (
      await server.call(`/conversations/${own}/messages`, {
        ...init,
        headers: { ...headers, Accept: 'text/event-stream' },
      })
    ).text()
    const [response] = (await server.client.responses(own)).items
    expect(
      (await server.call(`/conversations/${own}/responses/${response?.response_id}`, asReader)).status,
    ).toBe(403)
    expect((await (await server.call(`/conversations/${own}/context`, asReader)).json()).request).toBeNull()
    expect((await server.client.context(own)).request).toContain('hello')
  })

  it("[T11] can't use another tenant's working copy by its id", async () => {
    const { workspace_id } = await server.client.fork(own, { files: 'copy' })
    const answer = await server.call('/conversations', {
      ...jsonBody({ workspace_id }),
      headers: { Authorization: `Bearer ${foreign}`, 'Content-Type': 'application/json' },
    })
    expect(answer.status).toBe(404)
    expect((await server.call('/conversations', jsonBody({ workspace_id }))).status).toBe(201)
  })

  it('[T8] stream only the beginning of queued messages, and buffer nothing for readers that stop reading', async () => {
    const { id } = await server.client.createConversation({ title: 'queue' })
    const readers = await Promise.all(
      Array.from({ length: 40 }, () => silentReader(`/api/v1/conversations/${id}/ledger/stream`)),
    )
    const stop = new AbortController()
    const sizes: number[] = []
    const watching = (async () => {
      for await (const _ of server.client.stream(id, {
        signal: stop.signal,
        onQueue: (queue) => sizes.push(JSON.stringify(queue).length),
      }));
    })()
    await server.client.sendMessage(id, { content: '!wait 600000' })
    const before = process.memoryUsage()
    const large = 'x'.repeat(900_000)
    for (let i = 0; i < 10; i++) await server.client.sendMessage(id, { content: large })
    await expect.poll(() => sizes.length).toBeGreaterThan(5)
    expect(Math.max(...sizes)).toBeLessThan(10_000)
    expect((await server.client.queue(id)).items[0]?.content).toHaveLength(900_000)
    expect(process.memoryUsage().external - before.external).toBeLessThan(100 * 1024 * 1024)
    stop.abort()
    await watching
    for (const reader of readers) reader.destroy()
    await server.client.deleteConversation(id)
  })

  it('[T6] are rejected when their JSON is too deep or has too many values', async () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
    const wide = `{"content": "x", "more": [${'1,'.repeat(2_000_000)}1]}`
    for (const path of [
      '/api/v1/conversations',
      '/commands/send-message',
      '/commands/fork-thread',
      '/commands/create-thread',
    ]) {
      // Next to a field that the alias reads before it forwards the body.
      const hidden = `{"thread_id": "conv_${'0'.repeat(26)}", "content": ${deep}}`
      for (const body of [deep, wide, hidden]) {
        const headers = { Authorization: `Bearer ${server.token}`, 'Content-Type': 'application/json' }
        const answer = await fetch(server.url + path, { method: 'POST', body, headers })
        expect([path, answer.status, (await answer.json()).code]).toEqual([path, 400, 'invalid_json'])
      }
    }
  })

  it('[T6] never get a 500, whatever their shape', async () => {
    const strange = fc.oneof(
      fc.constantFrom(
        '',
        '..',
        '%00',
        '%2e%2e%2f',
        'x'.repeat(5000),
        '💥',
        '\ud800',
        "' or 1=1 --",
        '-1',
        '1e999',
        'null',
        '__proto__',
        'conv_',
        'a'.repeat(40),
      ),
      fc.string({ unit: 'binary', maxLength: 30 }),
    )
    const id = fc.oneof(fc.constant(own), fc.constant(newId('conv')), strange)
    const body = fc.oneof(
      fc.constant(undefined),
      fc.json({ maxDepth: 6 }),
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        '{',
        '[]',
        '"x"',
        '1',
        '{"content": 1}',
        '{"content":"a\\u0000b"}',
        '{"__proto__": {"x": 1}}',
        `${'{"a":'.repeat(100)}1${'}'.repeat(100)}`,
      ),
      fc
        .dictionary(
          fc.constantFrom(
            'content',
            'title',
            'message_id',
            'event_number',
            'files',
            'paths',
            'checkpoint_id',
            'dry_run',
            'strategy',
            'tool_call_id',
            'approved',
            'reason',
            'thread_id',
            'memory',
            'workspace_id',
            'attachments',
            'active_files',
            'rag_scope',
            'now',
          ),
          fc.oneof(
            fc.string({ unit: 'binary' }),
            fc.constant(own),
            fc.integer(),
            fc.double(),
            fc.boolean(),
            fc.constant(null),
            fc.array(fc.string()),
            fc.object({ maxDepth: 2 }),
          ),
        )
        .map((value) => JSON.stringify(value)),
    )
    const query = fc.dictionary(
      fc.constantFrom('limit', 'cursor', 'before', 'at', 'q', 'path', 'from', 'to', 'diff', 'follow', 'x'),
      fc.oneof(strange, fc.constantFrom('1', '0', '999999999999', 'false')),
      { maxKeys: 3 },
    )
    const header = fc.dictionary(
      fc.constantFrom('Idempotency-Key', 'Accept', 'Last-Event-ID', 'Content-Type', 'X-Any'),
      fc.oneof(
        fc.constantFrom(
          'text/event-stream',
          'application/json',
          'a',
          '',
          'x'.repeat(300),
          `${newId('seg')}.1`,
        ),
        fc.stringMatching(/^[!-~]{0,40}$/),
      ),
      { maxKeys: 2 },
    )
    const pieces = fc.record({
      route: fc.nat(),
      method: fc.constantFrom(null, null, null, 'PUT', 'OPTIONS', 'HEAD', 'DELETE'),
      id,
      other: strange,
      body,
      query,
      header,
    })
    await fc.assert(
      fc.asyncProperty(pieces, async (given) => {
        const route = routes[given.route % routes.length] as Route
        const method = given.method ?? route.method
        const encoded = (value: string) => encodeURIComponent(value.toWellFormed())
        const path = route.path
          .replace('{id}', encoded(given.id))
          .replaceAll(/\{\w+\}/g, encoded(given.other))
        const search = new URLSearchParams({ follow: 'false', ...given.query })
        const stop = new AbortController()
        const headers = {
          'Content-Type': 'application/json',
          ...given.header,
          Authorization: `Bearer ${server.token}`,
        }
        const init = { method, headers, signal: stop.signal, redirect: 'manual' as const }
        const hasBody = method !== 'GET' && method !== 'HEAD' && given.body !== undefined
        const answer = await fetch(
          `${server.url}${path}?${search}`,
          hasBody ? { ...init, body: given.body } : init,
        )
        const { status } = answer
        // Run streams don't end, so their headers are enough.
        if (answer.headers.get('content-type')?.startsWith('text/event-stream')) stop.abort()
        else await answer.arrayBuffer()
        expect(
          [200, 201, 202, 204, 400, 401, 403, 404, 405, 409, 413, 415, 422, 429],
          `${method} ${path}`,
        ).toContain(status)
      }),
      { numRuns: rounds(1500, 20_000) },
    )
  })
})
