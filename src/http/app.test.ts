import { request as rawRequest } from 'node:http'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { final, startRun, TENANT, userMessage } from '../../test/support/frames.ts'
import { jsonBody, startTestServer, type TestServer } from '../../test/support/server.ts'
import type { Conversation, ConversationList } from '../protocol/api/conversations.ts'
import type { EventsPage } from '../protocol/api/ledger.ts'
import { type Problem, scopes } from '../protocol/api/service.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'
import { openStore } from '../server/store.ts'
import { issueToken } from '../server/tokens.ts'

describe('the HTTP API', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())

  const create = async (body: object = {}) =>
    (await (await server.call('/conversations', jsonBody(body))).json()) as Conversation
  const countConversations = async () =>
    ((await (await server.call('/conversations?limit=200')).json()) as ConversationList).items.length
  const codeOf = async (response: Response) => {
    expect(response.headers.get('content-type')).toBe('application/problem+json')
    return [response.status, ((await response.json()) as Problem).code]
  }

  it('creates, reads, renames and deletes a conversation', async () => {
    const made = await server.call(
      '/conversations',
      jsonBody({ title: 'One', workspace_id: 'Acme.Main.Laptop' }),
    )
    expect(made.status).toBe(201)
    const conversation = (await made.json()) as Conversation
    expect(made.headers.get('location')).toBe(`/api/v1/conversations/${conversation.id}`)
    expect(conversation).toMatchObject({
      title: 'One',
      workspace_id: 'Acme.Main.Laptop',
      parent: null,
      head_event_number: 1,
    })
    const path = `/conversations/${conversation.id}`
    const renamed = await server.call(path, {
      ...jsonBody({ title: 'Two', memory: { strategy: 'trim' } }),
      method: 'PATCH',
    })
    expect(await renamed.json()).toMatchObject({
      title: 'Two',
      memory: { strategy: 'trim' },
      head_event_number: 2,
    })
    expect(await (await server.call(path)).json()).toMatchObject({ title: 'Two' })
    expect((await server.call(path, { method: 'DELETE' })).status).toBe(200)
    expect(await codeOf(await server.call(path))).toEqual([404, 'conversation_not_found'])
    expect(await codeOf(await server.call(path, { method: 'DELETE' }))).toEqual([
      404,
      'conversation_not_found',
    ])
  })

  it('creates a conversation without a request body', async () => {
    expect((await server.call('/conversations', { method: 'POST' })).status).toBe(201)
  })

  it('[W1] gives a new conversation a checkpoint, lists conversations by workspace and names the current one', async () => {
    // The first checkpoint waits for the initial scan of the files; later ones are made at once.
    const first = await server.client.createConversation()
    const begun = async () => (await server.client.conversation(first.id)).initial_checkpoint
    await expect.poll(begun).toMatch(/^[0-9a-f]{40}$/)
    const { id, initial_checkpoint } = await server.client.createConversation()
    expect(initial_checkpoint).toMatch(/^[0-9a-f]{40}$/)
    const { items } = await server.client.checkpoints(id)
    expect(items.map((item) => [item.checkpoint_id, item.label])).toEqual([
      [initial_checkpoint, 'Initial checkpoint'],
    ])
    const list = await server.client.listConversations({ limit: 1 })
    expect(list.current).toBe(id)
    const elsewhere = (await (
      await server.call('/conversations?workspace_id=Some.Where.Else')
    ).json()) as ConversationList
    expect(elsewhere).toMatchObject({ items: [], current: id })
  })

  it('lists conversations in pages and searches them', async () => {
    const marker = newId('msg')
    for (let index = 0; index < 5; index++) await create({ title: `${marker} ${index}` })
    const titles: (string | null)[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const query: string = cursor ? `&cursor=${cursor}` : ''
      const page = (await (
        await server.call(`/conversations?limit=2&q=${marker}${query}`)
      ).json()) as ConversationList
      titles.push(...page.items.map((item) => item.title))
      cursor = page.next_cursor
    }
    expect(titles).toEqual([4, 3, 2, 1, 0].map((index) => `${marker} ${index}`))
  })

  it('answers a repeated POST with the first answer', async () => {
    const before = await countConversations()
    const again = (body: object) =>
      server.call('/conversations', {
        ...jsonBody(body),
        headers: { 'Content-Type': 'application/json', 'Idempotency-Key': 'the same' },
      })
    const first = (await (await again({ title: 'Once' })).json()) as Conversation
    const second = await again({ title: 'Once' })
    expect(second.status).toBe(201)
    expect(second.headers.get('idempotency-replayed')).toBe('true')
    expect(await second.json()).toEqual(first)
    expect(await codeOf(await again({ title: 'Other' }))).toEqual([422, 'idempotency_key_reused'])
    expect(await countConversations()).toBe(before + 1)
  })

  describe('refuses, and stores nothing', () => {
    const paths = (id: string) => [
      `/conversations/${id}`,
      `/conversations/${id}/ledger/events`,
      `/conversations/${id}/ledger/stream?follow=false`,
      `/conversations/${id}/messages`,
    ]

    it.each([
      ['a limit of 0', '/ledger/events?limit=0', 'invalid_request'],
      ['a limit of 10001', '/ledger/events?limit=10001', 'invalid_request'],
      ['a limit that is not a number', '/ledger/events?limit=ten', 'invalid_request'],
      ['a limit of 1.5', '/messages?limit=1.5', 'invalid_request'],
      ['a malformed cursor', '/ledger/events?cursor=abc', 'bad_cursor'],
      ['an empty cursor', '/ledger/events?cursor=', 'bad_cursor'],
      ['a cursor with a negative number', `/ledger/stream?cursor=${newId('seg')}.-1`, 'bad_cursor'],
      ['a cursor of an unknown segment', `/ledger/stream?cursor=${newId('seg')}.1`, 'bad_cursor'],
      ['a cursor of a message list', `/messages?cursor=${newId('seg')}.99999999999999999999`, 'bad_cursor'],
      ['a follow that is not a boolean', '/ledger/stream?follow=perhaps', 'invalid_request'],
    ])('%s', async (_, path, code) => {
      const { id } = await create()
      expect(await codeOf(await server.call(`/conversations/${id}${path}`))).toEqual([400, code])
    })

    it.each([
      ['a wrong type', '{"title": 5}', 'invalid_request'],
      ['an unknown field', '{"titel": "x"}', 'invalid_request'],
      ['a NUL in a title', '{"title": "a\\u0000b"}', 'invalid_request'],
      ['a list', '[]', 'invalid_request'],
      ['null', 'null', 'invalid_request'],
      ['a truncated object', '{"title":', 'invalid_json'],
      ['a workspace with a slash', '{"workspace_id": "../x"}', 'invalid_request'],
    ])('a body with %s', async (_, body, code) => {
      const before = await countConversations()
      const init = { ...jsonBody({}), body }
      expect(await codeOf(await server.call('/conversations', init))).toEqual([400, code])
      expect(await countConversations()).toBe(before)
    })

    it('a body that is not UTF-8', async () => {
      const before = await countConversations()
      const body = Buffer.from([0x7b, 0x22, 0x74, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d])
      expect(await codeOf(await server.call('/conversations', { ...jsonBody({}), body }))).toEqual([
        400,
        'invalid_utf8',
      ])
      expect(await countConversations()).toBe(before)
    })

    it('a body that is too large, with or without a Content-Length', async () => {
      const before = await countConversations()
      const body = JSON.stringify({ title: 'x'.repeat(9_000_000) })
      expect(await codeOf(await server.call('/conversations', { ...jsonBody({}), body }))).toEqual([
        413,
        'body_too_large',
      ])
      expect(await chunkedPost(body)).toEqual([413, 'body_too_large'])
      expect(await countConversations()).toBe(before)
    })

    /** Posts without a Content-Length, so that the server learns the size only while it reads. */
    function chunkedPost(body: string): Promise<[number | undefined, string]> {
      return new Promise((resolve, reject) => {
        const outgoing = rawRequest(
          `${server.url}/api/v1/conversations`,
          {
            method: 'POST',
            headers: { Authorization: `Bearer ${server.token}`, 'Content-Type': 'application/json' },
          },
          (response) => {
            let text = ''
            response.on('data', (chunk) => {
              text += chunk
            })
            response.on('end', () => resolve([response.statusCode, (JSON.parse(text) as Problem).code]))
          },
        )
        // The server may close the connection before everything is sent.
        outgoing.on('error', (error: NodeJS.ErrnoException) => {
          if (error.code !== 'EPIPE' && error.code !== 'ECONNRESET') reject(error)
        })
        for (let at = 0; at < body.length; at += 100_000) outgoing.write(body.slice(at, at + 100_000))
        outgoing.end()
      })
    }

    it('a body of another media type', async () => {
      const init = { method: 'POST', body: '{}', headers: { 'Content-Type': 'text/plain' } }
      expect(await codeOf(await server.call('/conversations', init))).toEqual([415, 'unsupported_media_type'])
    })

    it('an empty patch and invalid list parameters', async () => {
      const { id } = await create()
      const patch = { ...jsonBody({}), method: 'PATCH' }
      expect(await codeOf(await server.call(`/conversations/${id}`, patch))).toEqual([400, 'invalid_request'])
      expect(await codeOf(await server.call('/conversations?cursor=zzz'))).toEqual([400, 'bad_cursor'])
      expect(await codeOf(await server.call('/conversations?limit=201'))).toEqual([400, 'invalid_request'])
    })

    it('an unknown id, whatever it looks like', async () => {
      for (const id of [newId('conv'), 'nonsense', '%00', "' or 1=1 --"]) {
        for (const path of paths(encodeURIComponent(id))) {
          expect(await codeOf(await server.call(path))).toEqual([404, 'conversation_not_found'])
        }
      }
      expect(await codeOf(await server.call('/nothing'))).toEqual([404, 'not_found'])
    })

    it("[L11] another tenant's ids, with the same answer as unknown ids", async () => {
      const { id } = await create({ title: 'mine' })
      const token = await server.tokenFor('another', ['conversations:read', 'conversations:write'])
      const headers = { Authorization: `Bearer ${token}` }
      for (const [index, path] of paths(id).entries()) {
        const foreign = await server.call(path, { headers })
        const missing = await server.call(paths(newId('conv'))[index] ?? '', { headers })
        expect(foreign.status).toBe(404)
        expect(await foreign.text()).toBe(await missing.text())
      }
      const attempt = await server.call(`/conversations/${id}`, { method: 'DELETE', headers })
      expect(await codeOf(attempt)).toEqual([404, 'conversation_not_found'])
      expect((await server.call(`/conversations/${id}`)).status).toBe(200)
    })

    it('calls without a valid token', async () => {
      for (const headers of [
        { Authorization: '' },
        { Authorization: 'Bearer wrong' },
        { Authorization: `Basic ${server.token}` },
      ]) {
        const refused = await server.call('/conversations', { ...jsonBody({}), headers })
        expect(refused.headers.get('www-authenticate')).toBe('Bearer')
        expect(await codeOf(refused)).toEqual([401, 'unauthorized'])
      }
    })

    it('calls that lack a scope', async () => {
      const before = await countConversations()
      const { id } = await create()
      const headers = { Authorization: `Bearer ${await server.tokenFor('default', ['conversations:read'])}` }
      const json = { ...headers, 'Content-Type': 'application/json' }
      const refused = await Promise.all([
        server.call('/conversations', { ...jsonBody({}), headers: json }),
        server.call(`/conversations/${id}`, { ...jsonBody({ title: 'x' }), method: 'PATCH', headers: json }),
        server.call(`/conversations/${id}`, { method: 'DELETE', headers }),
        server.call('/metrics', { headers }),
      ])
      for (const response of refused) expect(await codeOf(response)).toEqual([403, 'missing_scope'])
      expect((await server.call(`/conversations/${id}`, { headers })).status).toBe(200)
      const writer = await server.tokenFor('default', ['conversations:write'])
      for (const path of ['/conversations', ...paths(id)]) {
        const response = await server.call(path, { headers: { Authorization: `Bearer ${writer}` } })
        expect(await codeOf(response)).toEqual([403, 'missing_scope'])
      }
      expect(await countConversations()).toBe(before + 1)
    })

    it('foreign hosts and origins, even with a token', async () => {
      const port = new URL(server.url).port
      expect(await statusWith({ Host: `evil.example:${port}` })).toBe(403)
      expect(await statusWith({ Host: '127.0.0.1.evil.example' })).toBe(403)
      expect(await statusWith({ Host: `localhost:${port}` })).toBe(200)
      expect(await statusWith({ Host: `[::1]:${port}` })).toBe(200)
      for (const origin of ['https://evil.example', 'null', 'http://localhost:1', `http://127.0.0.1:1`]) {
        const response = await server.call('/conversations', { headers: { Origin: origin } })
        expect(await codeOf(response)).toEqual([403, 'foreign_origin'])
      }
      expect((await server.call('/conversations', { headers: { Origin: server.url } })).status).toBe(200)
    })

    function statusWith(headers: Record<string, string>): Promise<number | undefined> {
      return new Promise((resolve, reject) => {
        rawRequest(
          `${server.url}/api/v1/conversations`,
          { headers: { Authorization: `Bearer ${server.token}`, ...headers } },
          (response) => {
            response.resume()
            resolve(response.statusCode)
          },
        )
          .on('error', reject)
          .end()
      })
    }
  })

  describe('the ledger', () => {
    const converse = async () => {
      // A workspace that this server does not have, so that no checkpoint events get in between.
      const id = (await create({ workspace_id: 'Another.Place' })).id as ConversationId
      const run = await startRun(server.ledger, id)
      await server.ledger.append({
        tenant: TENANT,
        conversationId: id,
        run,
        frames: [userMessage('héllo\u2028🙂'), final('hi')],
      })
      return { id, run }
    }

    it('[L4] returns the same bytes in pages and streams', async () => {
      const { id } = await converse()
      const stored = (
        await server.ledger.page({ tenant: TENANT, conversationId: id, cursor: null, limit: 9 })
      ).frames
      const text = await (await server.call(`/conversations/${id}/ledger/events`)).text()
      expect(text).toContain(`"items":[${stored.join(',')}]`)
      const stream = await (await server.call(`/conversations/${id}/ledger/stream?follow=false`)).text()
      expect(stream.split('\n').filter((line) => line.startsWith('data: '))).toEqual(
        stored.map((frame) => `data: ${frame}`),
      )
    })

    it('continues pages by cursor, and marks the last one', async () => {
      const { id } = await converse()
      const page = async (query: string) =>
        (await (await server.call(`/conversations/${id}/ledger/events?${query}`)).json()) as EventsPage
      const first = await page('limit=2')
      expect(first.items.map((item) => item.event_id)).toEqual([1, 2])
      const second = await page(`limit=2&cursor=${first.next_cursor}`)
      expect(second).toMatchObject({ items: [{ event_id: 3 }], next_cursor: null, cut_after: null })
      expect(await page(`cursor=${second.last_cursor}`)).toMatchObject({
        items: [],
        next_cursor: null,
        last_cursor: second.last_cursor,
        digest: second.digest,
      })
    })

    it('resumes a stream after Last-Event-ID, which takes precedence over the cursor in the URL', async () => {
      const { id } = await converse()
      const { last_cursor } = (await (
        await server.call(`/conversations/${id}/ledger/events?limit=2`)
      ).json()) as EventsPage
      const first = (last_cursor ?? '').replace(/\.\d+$/, '.1')
      const response = await server.call(`/conversations/${id}/ledger/stream?follow=false&cursor=${first}`, {
        headers: { 'Last-Event-ID': last_cursor ?? '' },
      })
      expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
      expect((await response.text()).match(/^id: .*$/gm)).toEqual([`id: ${first.replace(/1$/, '3')}`])
    })

    it('lists the messages', async () => {
      const { id, run } = await converse()
      expect(await (await server.call(`/conversations/${id}/messages`)).json()).toMatchObject({
        items: [
          {
            role: 'user',
            content: 'héllo\u2028🙂',
            event_number: 2,
            conversation_id: id,
            checkpoint_id: null,
          },
          { role: 'assistant', content: 'hi', event_number: 3, message_id: run.runId, run_id: run.runId },
        ],
        next_cursor: null,
      })
    })
  })

  describe('a browser', () => {
    const sessionIn = (html: string) => /name="waymark-session" content="([^"]+)"/.exec(html)?.[1] ?? ''
    const listWith = (session: string) =>
      fetch(`${server.url}/api/v1/conversations`, { headers: { Authorization: `Bearer ${session}` } })

    it('signs in with the one-time link, and then needs no token', async () => {
      const response = await fetch(server.loginUrl)
      expect(response.headers.get('cache-control')).toBe('no-store')
      expect(response.headers.get('set-cookie')).toBeNull()
      const list = await listWith(sessionIn(await response.text()))
      expect(list.status).toBe(200)
      expect((await fetch(server.loginUrl)).status).toBe(401)
    })

    it('[T10] signs in with a valid token only, and never with a cookie', async () => {
      const signIn = (token: string) =>
        fetch(`${server.url}/login`, { method: 'POST', body: new URLSearchParams({ token }) })
      const session = sessionIn(await (await signIn(server.token)).text())
      expect((await listWith(session)).status).toBe(200)
      // Browsers send cookies to every port of a host, so no cookie may authenticate a request.
      const asCookie = { headers: { Cookie: `waymark_session=${session}; waymark_session_4747=${session}` } }
      expect((await fetch(`${server.url}/api/v1/conversations`, asCookie)).status).toBe(401)
      const refused = await signIn('wrong')
      expect([refused.status, sessionIn(await refused.text())]).toEqual([401, ''])
    })

    it("is signed out when its token is revoked, and can't sign in with its session", async () => {
      const store = await openStore(server.config)
      const secret = await issueToken(store.tokens, {
        name: 'short',
        tenant: 'default',
        scopes: [...scopes],
        days: 1,
      })
      const signIn = (token: string) =>
        fetch(`${server.url}/login`, { method: 'POST', body: new URLSearchParams({ token }) })
      const session = sessionIn(await (await signIn(secret)).text())
      const status = async () => (await listWith(session)).status
      expect(await status()).toBe(200)
      expect((await signIn(session)).status).toBe(401)
      const id = (await store.tokens.list()).find((token) => token.name === 'short')?.id ?? ''
      await store.tokens.revoke(id)
      await store.close()
      expect(await status()).toBe(401)
    })

    it('gets 413 for a large form, and does not use up the link with a HEAD request', async () => {
      const large = await fetch(`${server.url}/login`, {
        method: 'POST',
        body: `token=${'x'.repeat(10_000)}`,
      })
      expect(large.status).toBe(413)
      const garbage = { method: 'POST', headers: { 'Content-Type': 'multipart/form-data' }, body: 'garbage' }
      expect((await fetch(`${server.url}/login`, garbage)).status).toBe(401)
      const another = await startTestServer()
      await fetch(another.loginUrl, { method: 'HEAD' })
      expect((await fetch(another.loginUrl)).status).toBe(200)
      await another.close()
    })

    it('gets pages with a content security policy that denies by default', async () => {
      const policy = (await fetch(server.url)).headers.get('content-security-policy')
      expect(policy).toContain("default-src 'none'")
      expect(policy).toContain("frame-ancestors 'none'")
    })
  })

  it('closes the streams of readers that disconnect before the answer', async () => {
    const { id } = await create()
    for (let index = 0; index < 50; index++) {
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
      socket.on('error', () => {})
      socket.write(
        `GET /api/v1/conversations/${id}/ledger/stream HTTP/1.1\r\nHost: localhost\r\n` +
          `Authorization: Bearer ${server.token}\r\n\r\n`,
        () => socket.resetAndDestroy(),
      )
    }
    const open = async () =>
      /waymark_open_streams (\d+)/.exec(await (await server.call('/metrics')).text())?.[1] ?? ''
    await expect.poll(open, { timeout: 5000 }).toBe('0')
  })

  it('reports health, readiness and metrics', async () => {
    for (const base of [server.url, `${server.url}/api/v1`]) {
      expect(await (await fetch(`${base}/health`)).json()).toEqual({ status: 'ok' })
      expect(await (await fetch(`${base}/ready`)).json()).toEqual({ status: 'ready' })
      expect((await fetch(`${base}/metrics`)).status).toBe(401)
      const metrics = await fetch(`${base}/metrics`, { headers: { Authorization: `Bearer ${server.token}` } })
      expect(await metrics.text()).toMatch(/waymark_ledger_frames_total [1-9]/)
    }
  })
})
