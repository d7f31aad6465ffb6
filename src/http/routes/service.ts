import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import { aboutSchema } from '../../protocol/api/service.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { requireScope } from '../auth.ts'
import { json, problems } from '../openapi.ts'

const status = z.object({ status: z.string() })

const health = createRoute({
  method: 'get',
  path: '/health',
  summary: 'Whether the process answers',
  security: [],
  responses: { 200: json(status, 'It does') },
})

const ready = createRoute({
  method: 'get',
  path: '/ready',
  summary: 'Whether the store answers',
  security: [],
  responses: { 200: json(status, 'It does'), 503: json(status, 'It does not') },
})

const metrics = createRoute({
  method: 'get',
  path: '/metrics',
  summary: 'Prometheus metrics of this process',
  middleware: [requireScope('admin')] as const,
  responses: {
    200: { description: 'Metrics', content: { 'text/plain': { schema: z.string() } } },
    ...problems,
  },
})

const about = createRoute({
  method: 'get',
  path: '/about',
  summary: 'What this server is, and what the token may do here',
  responses: { 200: json(aboutSchema, 'The server'), ...problems },
})

/** Only below the base: it needs a token. */
export function addAboutRoute(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  app.openapi(about, (c) => c.json({ ...deps.about, scopes: c.get('caller').scopes }, 200))
}

/** What operators and their tools ask for. Only the metrics need a token: they tell about all tenants. */
export function addServiceRoutes(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  const readiness = createReadiness(deps)
  app.openapi(health, (c) => c.json({ status: 'ok' }, 200))
  app.openapi(ready, async (c) => {
    const refusal = await readiness()
    if (refusal === null) return c.json({ status: 'ready' }, 200)
    return c.json({ status: refusal }, 503)
  })
  app.openapi(metrics, async (c) => {
    const { registry } = deps.metrics
    return c.body(await registry.metrics(), 200, { 'Content-Type': registry.contentType }) as never
  })
}

/** How long an answer is reused, and how long the store may take: a probe neither hangs nor adds load. */
const COUNTS_MS = 1000
const WAIT_MS = 3000

/** Null when the store reads and writes; otherwise why it does not. */
function createReadiness({ ledger, log }: AppDependencies): () => Promise<string | null> {
  let last: { at: number; answer: Promise<string | null> } | null = null

  async function probe(): Promise<string | null> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<string>((resolve) => {
      timer = setTimeout(resolve, WAIT_MS, `the store has not answered for ${WAIT_MS / 1000} s`)
    })
    const stored = ledger.probeWrite().then(
      () => null,
      (error: unknown) => {
        log.error({ err: error }, 'the store takes no write')
        return `the store takes no write: ${(error as Error).message}`
      },
    )
    return await Promise.race([stored, late]).finally(() => clearTimeout(timer))
  }

  return () => {
    if (!last || last.at < performance.now() - COUNTS_MS) last = { at: performance.now(), answer: probe() }
    return last.answer
  }
}
