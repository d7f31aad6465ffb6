import { OpenAPIHono } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { secureHeaders } from 'hono/secure-headers'
import { WaymarkError } from '../protocol/errors.ts'
import { addAliases } from './aliases.ts'
import type { AppDependencies, AppEnv } from './app-dependencies.ts'
import { authenticateUnless, ownConversation } from './auth.ts'
import { guardHostAndOrigin } from './guard.ts'
import { addPages } from './pages.ts'
import { answerProblem } from './problem.ts'
import { addContextRoutes } from './routes/context.ts'
import { addConversationRoutes } from './routes/conversations.ts'
import { addGateway, addTerminalRoutes } from './routes/gateway.ts'
import { addLedgerRoutes } from './routes/ledger.ts'
import { addLineRoutes } from './routes/lines.ts'
import { addOperationRoutes } from './routes/operations.ts'
import { addRunRoutes } from './routes/runs.ts'
import { addAboutRoutes, addServiceRoutes } from './routes/service.ts'
import { addStatsRoutes } from './routes/stats.ts'
import { addTransferRoutes } from './routes/transfer.ts'
import { addUpkeepRoutes } from './routes/upkeep.ts'
import { addWorkRoutes } from './routes/work.ts'

const description = {
  openapi: '3.1.0',
  info: {
    title: 'Waymark',
    version: '1',
    description: 'A session server for AI coding agents: one append-only ledger, replayed byte for byte.',
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  servers: [{ url: '/api/v1' }],
  security: [{ bearer: [] }],
}

export type App = OpenAPIHono<AppEnv>

export function createApp(deps: AppDependencies): App {
  const app = newApp()
  app.use(deps.metrics.requests)
  app.use(
    secureHeaders({
      contentSecurityPolicy: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'"],
        connectSrc: ["'self'"],
        // Inline images only: a remote image's URL can exfiltrate secrets.
        imgSrc: ["'self'", 'data:'],
        requireTrustedTypesFor: ["'script'"],
        trustedTypes: ["'none'"],
        frameAncestors: ["'none'"],
        baseUri: ["'none'"],
        formAction: ["'self'"],
      },
      // With 'no-referrer', browsers send `Origin: null` for the sign-in form, and the guard rejects that.
      referrerPolicy: 'same-origin',
      xFrameOptions: 'DENY',
      // TLS is terminated by a reverse proxy.
      strictTransportSecurity: false,
    }),
  )
  app.use(guardHostAndOrigin(deps.allowedHosts))
  app.use(authenticateUnless((c) => isPublic(c, deps), deps))
  app.onError((error, c) => {
    const known = asWaymarkError(error)
    if (!known || known.code === 'storage_failed') {
      deps.log.error({ err: error, method: c.req.method, path: c.req.path }, 'request failed')
    }
    return answerProblem(c, known ?? error)
  })

  const api = createApi(deps)
  const document = api.getOpenAPI31Document(description)
  app.route('/api/v1', api)
  addAliases(app)
  addGateway(app, deps)
  // Also at the root, where monitoring tools expect them.
  addServiceRoutes(app, deps)
  for (const path of ['/openapi.json', '/api/v1/openapi.json']) app.get(path, (c) => c.json(document))
  const nothingHere = addPages(app, deps)
  app.notFound((c) =>
    isPerson(c)
      ? nothingHere(c)
      : answerProblem(c, new WaymarkError('not_found', `Nothing found at ${c.req.path}.`)),
  )
  return app
}

/** Paths that need no token; every other path does. */
const PUBLIC = new Set([
  ...['/health', '/ready', '/openapi.json'].flatMap((path) => [path, `/api/v1${path}`]),
  '/login',
  '/sign-in.js',
  '/',
])
const PAGE = /^\/c\/[^/]+(\/[^/]+)?$/
/** Agents send their own credentials here; the gateway has keys of its own. */
const GATEWAY = /^\/gateway\//

function isPublic(c: Context, { web }: Pick<AppDependencies, 'web'>): boolean {
  const { path } = c.req
  return (
    PUBLIC.has(path) ||
    PAGE.test(path) ||
    GATEWAY.test(path) ||
    (web?.files.has(path) ?? false) ||
    isPerson(c)
  )
}

/** A browser navigation outside the API: answered with the page, or with a 404 page. */
function isPerson({ req }: Context): boolean {
  const isOfApi = /^\/(api|commands|threads|metrics|gateway)(\/|$)/.test(req.path)
  return req.method === 'GET' && !isOfApi && /\btext\/html\b/.test(req.header('accept') ?? '')
}

function createApi(deps: AppDependencies): App {
  const api = newApp()
  api.use(async (c, next) => {
    c.header('Cache-Control', 'no-store')
    await next()
  })
  addServiceRoutes(api, deps)
  for (const path of ['/conversations/:id', '/conversations/:id/*']) api.use(path, ownConversation(deps))
  addAboutRoutes(api, deps)
  addConversationRoutes(api, deps)
  addLedgerRoutes(api, deps)
  addRunRoutes(api, deps)
  addLineRoutes(api, deps)
  addWorkRoutes(api, deps)
  addContextRoutes(api, deps)
  addUpkeepRoutes(api, deps)
  addTransferRoutes(api, deps)
  addOperationRoutes(api, deps)
  addStatsRoutes(api, deps)
  addTerminalRoutes(api, deps)
  api.openAPIRegistry.registerComponent('securitySchemes', 'bearer', { type: 'http', scheme: 'bearer' })
  return api
}

function newApp(): App {
  return new OpenAPIHono<AppEnv>({
    defaultHook: (result) => {
      if (result.success) return
      throw new WaymarkError('invalid_request', 'The request does not match the API schema.', {
        details: result.error.issues.map((issue) => ({
          path: [result.target === 'json' ? 'body' : result.target, ...issue.path].join('.'),
          message: issue.message,
        })),
      })
    },
  })
}

function asWaymarkError(error: Error): WaymarkError | null {
  if (error instanceof WaymarkError) return error
  if (error instanceof HTTPException && error.status < 500) {
    return new WaymarkError('invalid_request', error.message, { cause: error })
  }
  return null
}
