import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestServer, type TestServer } from '../../test/support/server.ts'

describe('the OpenAPI description', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())

  it('is OpenAPI 3.1 and has exactly the calls in docs/spec/http.md', async () => {
    const response = await fetch(`${server.url}/openapi.json`)
    const document = (await response.json()) as { openapi: string; paths: Record<string, object> }
    expect(document.openapi).toBe('3.1.0')
    const calls = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    const written = readFileSync(new URL('../../docs/spec/http.md', import.meta.url), 'utf8')
    const told = [...written.matchAll(/^\| `(GET|POST|PUT|PATCH|DELETE) (\/[^\s?`]*)/gm)].map(
      ([, method, path]) => `${method} ${path}`,
    )
    expect(calls.toSorted()).toEqual([...told, 'GET /ready', 'GET /metrics'].toSorted())
  })
})
