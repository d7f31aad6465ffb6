import type { Problem } from '../protocol/api/service.ts'

export interface ClientOptions {
  /** The server's URL, such as http://127.0.0.1:4747; '' for the page that it serves. */
  url: string
  /** The token, or a function that returns the current one. */
  token?: string | (() => string)
  fetch?: typeof fetch
}

/** Statuses of temporary errors. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504])

/** An error response, with the server's stable code. */
export class RequestError extends Error {
  readonly status: number
  readonly code: string
  readonly problem: Problem | null

  constructor(status: number, problem: Problem | null) {
    const details = problem?.errors?.map((error) => `${error.path}: ${error.message}`).join('; ')
    super(problem ? `${problem.detail}${details ? ` (${details})` : ''}` : `The server answered ${status}.`)
    this.name = 'RequestError'
    this.status = status
    this.code = problem?.code ?? 'unknown'
    this.problem = problem
  }

  /** True for a temporary error. */
  get mayPass(): boolean {
    return PASSING.has(this.status)
  }
}

/** No response: no server is listening there, or the network is down. */
export class ConnectionError extends Error {
  constructor(url: string, cause: unknown) {
    const inner = (cause as Error).cause
    super(`can't connect to ${url} (${inner instanceof Error ? inner.message : (cause as Error).message})`, {
      cause,
    })
    this.name = 'ConnectionError'
  }
}

export interface RequestOptions {
  method?: string
  query?: Record<string, string | number | undefined>
  body?: unknown
  /** A body that is streamed. Browsers stream only blobs. */
  stream?: ReadableStream | Blob
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** The response, if it is a success. */
export async function request(
  options: ClientOptions,
  path: string,
  init: RequestOptions = {},
): Promise<Response> {
  const response = await (options.fetch ?? fetch)(`${options.url}/api/v1${path}${queryText(init.query)}`, {
    method: init.method ?? 'GET',
    headers: {
      ...authorization(options.token),
      ...(init.body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...init.headers,
    },
    ...(init.body === undefined ? {} : { body: JSON.stringify(init.body) }),
    ...(init.stream === undefined ? {} : { body: init.stream, duplex: 'half' }),
    ...(init.signal ? { signal: init.signal } : {}),
  }).catch((cause: unknown) => {
    throw new ConnectionError(options.url, cause)
  })
  if (!response.ok) throw new RequestError(response.status, await problemOf(response))
  return response
}

function authorization(token: ClientOptions['token']): Record<string, string> {
  const secret = typeof token === 'function' ? token() : token
  return secret ? { Authorization: `Bearer ${secret}` } : {}
}

async function problemOf(response: Response): Promise<Problem | null> {
  if (!response.headers.get('content-type')?.startsWith('application/problem+json')) return null
  return (await response.json()) as Problem
}

function queryText(query: RequestOptions['query'] = {}): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  )
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`
}
