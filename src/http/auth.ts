import type { Context, MiddlewareHandler } from 'hono'
import { type Clock, timestamp } from '../core/clock.ts'
import { hashToken, newSecret } from '../core/secret.ts'
import type { Token, TokenStore } from '../core/tokens.ts'
import type { Scope } from '../protocol/api/service.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { isId, newId } from '../protocol/ids.ts'
import type { AppDependencies, AppEnv } from './app-dependencies.ts'
import { readJsonBody } from './body.ts'

const SESSION_SECONDS = 30 * 24 * 60 * 60

/** Authenticates the caller; runs before any middleware that reads a body. */
export function authenticateUnless(
  isPublic: (c: Context<AppEnv>) => boolean,
  deps: { tokens: TokenStore; clock: Clock },
): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    if (isPublic(c)) return await next()
    const secret = bearer(c.req.header('authorization'))
    const caller = secret ? await findCaller(deps, secret) : null
    if (!caller) {
      throw new WaymarkError('unauthorized', 'A valid token is required. Send Authorization: Bearer <token>.')
    }
    c.set('caller', caller)
    await next()
  }
}

/** Null when the token is unknown or has expired. */
export async function findCaller(
  deps: { tokens: TokenStore; clock: Clock },
  secret: string,
): Promise<Token | null> {
  const token = await deps.tokens.find(hashToken(secret))
  return token && !isExpired(token, deps.clock) ? token : null
}

/** Checks the token's scope, then reads the body. */
export function access(scope: Scope): [MiddlewareHandler<AppEnv>, MiddlewareHandler<AppEnv>] {
  return [requireScope(scope), readJsonBody]
}

export function requireScope(scope: Scope): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    assertScope(c.get('caller'), scope)
    await next()
  }
}

export function assertScope({ scopes }: Pick<Token, 'scopes'>, scope: Scope): void {
  if (!scopes.includes(scope)) throw new WaymarkError('missing_scope', `The token lacks the scope ${scope}.`)
}

const READS = new Set(['GET', 'HEAD'])

/** Rejects writes to another tenant's conversation before the body is read; read handlers check it themselves. */
export function ownConversation({ ledger }: Pick<AppDependencies, 'ledger'>): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const id = c.req.param('id')
    if (id !== undefined && !READS.has(c.req.method)) {
      const isOwn = isId('conv', id) && (await ledger.owns(c.get('caller').tenant, id))
      if (!isOwn) throw new WaymarkError('conversation_not_found', 'There is no such conversation.')
    }
    await next()
  }
}

/** Opens a browser session: a separate token that ends with its parent. Returns the secret. */
export async function openBrowserSession(
  deps: { tokens: TokenStore; clock: Clock },
  parent: Token,
): Promise<string> {
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
  return secret
}

function bearer(header: string | undefined): string | null {
  return /^Bearer +([^ ]+) *$/i.exec(header ?? '')?.[1] ?? null
}

function isExpired(token: Token, clock: Clock): boolean {
  return token.expiresAt !== null && token.expiresAt <= timestamp(clock.now())
}
