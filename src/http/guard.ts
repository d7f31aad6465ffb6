import type { MiddlewareHandler } from 'hono'
import { WaymarkError } from '../protocol/errors.ts'

const LOOPBACK_HOSTS = ['127.0.0.1', 'localhost', '[::1]']

/**
 * Rejects requests with a foreign Host or Origin. This server runs commands, and any web page can reach localhost:
 * a foreign Host means DNS rebinding, a foreign Origin means another site's script.
 */
export function guardHostAndOrigin(allowedHosts: readonly string[]): MiddlewareHandler {
  const names = new Set([...LOOPBACK_HOSTS, ...allowedHosts].map((name) => name.toLowerCase()))
  return async (c, next) => {
    const host = (c.req.header('host') ?? new URL(c.req.url).host).toLowerCase()
    if (!names.has(host.replace(/:\d+$/, ''))) {
      throw new WaymarkError(
        'foreign_host',
        'This server does not answer for that host name. Add it to allowedHosts.',
      )
    }
    const origin = c.req.header('origin')
    if (origin !== undefined && !isSameHost(origin, host)) {
      throw new WaymarkError('foreign_origin', 'Requests from other sites are refused.')
    }
    await next()
  }
}

/** Parses both as URLs, because either may omit the default port. */
function isSameHost(origin: string, host: string): boolean {
  if (!URL.canParse(origin)) return false
  const { protocol, host: originHost } = new URL(origin)
  const own = `${protocol}//${host}`
  return URL.canParse(own) && new URL(own).host === originHost
}
