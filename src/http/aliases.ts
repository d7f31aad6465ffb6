import type { OpenAPIHono } from '@hono/zod-openapi'
import type { AppEnv } from './env.ts'

/** Paths by which others know our calls. The same handlers answer them. */
const aliases = [
  { method: 'GET', alias: '/api/dialogs/:id/session', path: '/conversations/:id/session' },
  { method: 'POST', alias: '/api/dialogs/:id/approve', path: '/conversations/:id/approve' },
  { method: 'POST', alias: '/api/dialogs/:id/reset', path: '/conversations/:id/reset' },
  { method: 'POST', alias: '/api/dialogs/:id/restore', path: '/conversations/:id/restore' },
] as const

export function addAliases(app: OpenAPIHono<AppEnv>): void {
  for (const { method, alias, path } of aliases) {
    app.on(method, alias, (c) => {
      const url = new URL(c.req.url)
      url.pathname = `/api/v1${path.replace(':id', encodeURIComponent(c.req.param('id') ?? ''))}`
      return app.fetch(new Request(url, c.req.raw), c.env)
    })
  }
}
