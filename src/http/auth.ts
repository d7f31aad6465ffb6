import type { Context, MiddlewareHandler } from 'hono'
import { getCookie, setCookie } from 'hono/cookie'
import { type Clock, timestamp } from '../core/clock.ts'
import { hashToken, newSecret } from '../core/secret.ts'
import type { Token, TokenStore } from '../core/tokens.ts'
import type { Scope } from '../protocol/api/service.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { newId } from '../protocol/ids.ts'
import type { AppEnv } from './env.ts'

const SESSION_SECONDS = 30 * 24 * 60 * 60

/** Finds out who is calling, by bearer token or by the browser's cookie. */
export function authenticate(deps: { tokens: TokenStore; clock: Clock }): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const secret = bearer(c.req.header('authorization')) ?? getCookie(c, cookieName(c))
    const caller = secret ? await findCaller(deps, secret) : null
    if (!caller) {
      throw new WaymarkError('unauthorized', 'A valid token is needed: Authorization: Bearer <token>.')
    }
    c.set('caller', caller)
    await next()
  }
}

/** Null when there is no such token, or none any more. */
export async function findCaller(
  deps: { tokens: TokenStore; clock: Clock },
  secret: string,
): Promise<Token | null> {
  const token = await deps.tokens.find(hashToken(secret))
  return token && !isExpired(token, deps.clock) ? token : null
}

export function requireScope(scope: Scope): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const caller = c.get('caller')
    if (!caller.scopes.includes(scope)) {
      throw new WaymarkError('missing_scope', `The token lacks the scope ${scope}.`)
    }
    await next()
  }
}

/** Whether the browser has a session that has not ended. */
export async function isSignedIn(c: Context, deps: { tokens: TokenStore; clock: Clock }): Promise<boolean> {
  const secret = getCookie(c, cookieName(c))
  return secret !== undefined && (await findCaller(deps, secret)) !== null
}

/** A browser's session: a token of its own, which only the cookie holds, and which ends with the one it was opened by. */
export async function openBrowserSession(
  c: Context,
  deps: { tokens: TokenStore; clock: Clock },
  parent: Token,
): Promise<void> {
  const secret = newSecret()
  const now = deps.clock.now()
  const longest = timestamp(now + SESSION_SECONDS * 1000)
  await deps.tokens.put(hashToken(secret), {
    id: newId('tok', now),
    tenant: parent.tenant,
    name: 'browser',
    scopes: parent.scopes,
    createdAt: timestamp(now),
    expiresAt: parent.expiresAt !== null && parent.expiresAt < longest ? parent.expiresAt : longest,
    parentId: parent.id,
  })
  const maxAge = SESSION_SECONDS
  setCookie(c, cookieName(c), secret, { httpOnly: true, sameSite: 'Strict', path: '/', maxAge })
}

/** Browsers keep cookies by host and not by port: two servers on one machine must not sign each other's people out. */
function cookieName(c: Context): string {
  const [port] = /(?<=:)\d+$/.exec(c.req.header('host') ?? '') ?? []
  return port === undefined ? 'waymark_session' : `waymark_session_${port}`
}

function bearer(header: string | undefined): string | null {
  return /^Bearer +([^ ]+) *$/i.exec(header ?? '')?.[1] ?? null
}

function isExpired(token: Token, clock: Clock): boolean {
  return token.expiresAt !== null && token.expiresAt <= timestamp(clock.now())
}
