import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestServer, type TestServer } from '../../test/support/server.ts'

describe('the served page', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())

  /** Sends the path unchanged; `fetch` would resolve `..` itself. */
  const statusOf = (path: string) =>
    new Promise<number | undefined>((resolve, reject) => {
      const { hostname, port } = new URL(server.url)
      request({ hostname, port, path }, (answer) => {
        answer.resume()
        resolve(answer.statusCode)
      })
        .on('error', reject)
        .end()
    })
  const get = (path: string, headers: Record<string, string> = {}) => fetch(server.url + path, { headers })

  it('is the same for every view, and is never cached without revalidation', async () => {
    const index = await (await get('/')).text()
    expect(index).toContain('<div id="page">')
    for (const path of ['/c/conv_x', '/c/conv_x/timeline', '/c/conv_x/timeline?at=3']) {
      const answer = await get(path)
      expect(answer.status).toBe(200)
      expect(answer.headers.get('cache-control')).toBe('no-cache')
      expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(await answer.text()).toBe(index)
    }
  })

  it('has content-hashed files, cached forever and compressed if the client accepts it', async () => {
    const index = await (await get('/')).text()
    const [, script = ''] = /src="(\/assets\/[^"]+\.js)"/.exec(index) ?? []
    const plain = await get(script, { 'Accept-Encoding': 'identity' })
    expect(plain.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    expect(plain.headers.get('content-encoding')).toBeNull()
    expect(plain.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    const packed = await get(script, { 'Accept-Encoding': 'gzip' })
    expect(packed.headers.get('content-encoding')).toBe('gzip')
    expect(packed.headers.get('vary')).toBe('Accept-Encoding')
    expect(await packed.text()).toBe(await plain.text())
    expect((await fetch(server.url + script, { method: 'HEAD' })).status).toBe(200)
  })

  it('serves no files but its own', async () => {
    for (const path of [
      '/assets/',
      '/assets/../../package.json',
      '/assets/..%2f..%2fpackage.json',
      '//etc/passwd',
      '/assets/%2e%2e/%2e%2e/package.json',
      '/index.html.gz',
      '/c/',
      '/c/a/b/c',
      '/web/main.tsx',
    ]) {
      expect(await statusOf(path), path).toBe(401)
      const known = await server.call(`/../..${path}`, { redirect: 'manual' })
      expect(known.status, path).not.toBe(200)
    }
  })

  it('requires a token for every path that is not on the public list, even an unknown one', async () => {
    for (const path of ['/api/v1/new', '/new', '/api/v1/conversations/', '/metrics', '/threads/x/new']) {
      expect(await statusOf(path), path).toBe(401)
    }
    for (const path of ['/health', '/api/v1/health', '/openapi.json', '/login', '/', '/c/conv_x/changes']) {
      expect(await statusOf(path), path).toBe(200)
    }
    expect((await server.call('/new')).status).toBe(404)
  })

  it('describes the server only to authenticated clients', async () => {
    expect((await get('/api/v1/about')).status).toBe(401)
    expect(await server.client.about()).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      model: { is_demo: true },
      scopes: ['conversations:read', 'conversations:write', 'workspace:write', 'records:read', 'admin'],
    })
  })

  it('[T15] lists projects and links to them only for the token of the person who started the server', async () => {
    const { items } = await server.client.projects()
    const own = items[0]?.id ?? ''
    expect((await server.client.projectLink(own)).url).toContain('/login?code=')
    for (const tenant of ['default', 'others']) {
      const headers = { Authorization: `Bearer ${await server.tokenFor(tenant, ['admin'])}` }
      expect(await (await server.call('/projects', { headers })).json()).toEqual({ items: [] })
      const link = await server.call(`/projects/${own}/link`, { method: 'POST', headers })
      expect(link.status).toBe(404)
    }
  })

  it('refuses to page the ledger in both directions at once', async () => {
    const { id } = await server.client.createConversation()
    const answer = await server.call(`/conversations/${id}/ledger/events?before=5&cursor=x`)
    expect(answer.status).toBe(400)
    expect((await server.call(`/conversations/${id}/ledger/events?before=1`)).status).toBe(400)
    const { items } = await server.client.events(id, { before: 2, limit: 5 })
    expect(items.map((item) => item.event_id)).toEqual([1])
  })
})
