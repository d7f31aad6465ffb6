import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import type { Token } from '../../core/tokens.ts'
import {
  aboutSchema,
  agentListSchema,
  modelListSchema,
  projectLinkSchema,
  projectListSchema,
} from '../../protocol/api/service.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { findCaller, requireScope } from '../auth.ts'
import { json, problems } from '../openapi.ts'

const status = z.object({ status: z.string() })

const health = createRoute({
  method: 'get',
  path: '/health',
  summary: 'Liveness of the process',
  security: [],
  responses: { 200: json(status, 'The process is running') },
})

const ready = createRoute({
  method: 'get',
  path: '/ready',
  summary: 'Readiness of the store',
  security: [],
  responses: { 200: json(status, 'Ready'), 503: json(status, 'Not ready') },
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
  summary: 'The server and the scopes of the token',
  responses: { 200: json(aboutSchema, 'The server'), ...problems },
})

const models = createRoute({
  method: 'get',
  path: '/models',
  summary: 'The models that a conversation can choose from, by provider',
  middleware: [requireScope('conversations:read')] as const,
  responses: { 200: json(modelListSchema, 'Providers with their models'), ...problems },
})

const agents = createRoute({
  method: 'get',
  path: '/agents',
  summary: 'The hosted agents that a conversation can choose, and how to install those that are missing',
  middleware: [requireScope('conversations:read')] as const,
  responses: { 200: json(agentListSchema, 'Agents'), ...problems },
})

const projects = createRoute({
  method: 'get',
  path: '/projects',
  summary: 'The projects that this process serves, each at its own address',
  middleware: [requireScope('admin')] as const,
  responses: { 200: json(projectListSchema, 'Projects'), ...problems },
})

const projectLink = createRoute({
  method: 'post',
  path: '/projects/{project_id}/link',
  summary: 'Create a link that signs one browser in to another project of this process',
  middleware: [requireScope('admin')] as const,
  request: {
    params: z.object({
      project_id: z.string().meta({ param: { name: 'project_id', in: 'path' } }),
    }),
  },
  responses: { 200: json(projectLinkSchema, 'The link'), ...problems },
})

/** Not at the root, because they need a token. */
export function addAboutRoutes(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  app.openapi(models, async (c) => c.json({ items: await deps.listModels() }, 200))
  app.openapi(agents, (c) => c.json({ items: deps.listAgents() }, 200))
  app.openapi(projects, async (c) => {
    const mayList = await isLocal(deps, c.get('caller'))
    return c.json({ items: mayList ? deps.projects.list() : [] }, 200)
  })
  app.openapi(projectLink, async (c) => {
    const { project_id } = c.req.valid('param')
    const url = (await isLocal(deps, c.get('caller'))) ? deps.projects.link(project_id) : null
    if (url === null) throw new WaymarkError('not_found', 'This server has no such project.')
    return c.json({ url }, 200)
  })
  app.openapi(about, (c) => c.json({ ...deps.about(), scopes: c.get('caller').scopes }, 200))
}

/** True for the token of the person who started the server, and for browsers that signed in with it. */
async function isLocal(deps: AppDependencies, { id, parentId }: Token): Promise<boolean> {
  const local = await findCaller(deps, deps.localToken)
  return local !== null && (id === local.id || parentId === local.id)
}

/** Endpoints for operators. Only the metrics need a token, because they cover all tenants. */
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

/** Answers are cached for COUNTS_MS and give up after WAIT_MS, so that a probe neither hangs nor adds load. */
const COUNTS_MS = 1000
const WAIT_MS = 3000

/** Null when the store can read and write; otherwise the reason. */
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
        log.error({ err: error }, 'the store rejected a write')
        return `the store rejected a write: ${(error as Error).message}`
      },
    )
    return await Promise.race([stored, late]).finally(() => clearTimeout(timer))
  }

  return () => {
    if (!last || last.at < performance.now() - COUNTS_MS) last = { at: performance.now(), answer: probe() }
    return last.answer
  }
}
