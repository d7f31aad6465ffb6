import { timestamp } from '../core/clock.ts'
import { hashToken, newSecret } from '../core/secret.ts'
import type { TokenStore } from '../core/tokens.ts'
import { readOrMakeTokenId } from '../data-dir.ts'
import { type Scope, scopes } from '../protocol/api/service.ts'
import { newId } from '../protocol/ids.ts'
import { systemClock } from './system-clock.ts'

const DAY_MS = 24 * 60 * 60 * 1000

/** Creates a token and returns its secret, which is not stored. */
export async function issueToken(
  tokens: TokenStore,
  wanted: { name: string; tenant: string; scopes: Scope[]; days: number | null },
): Promise<string> {
  const { name, tenant, scopes, days } = wanted
  const secret = newSecret()
  const now = systemClock.now()
  const createdAt = timestamp(now)
  const expiresAt = days === null ? null : timestamp(now + days * DAY_MS)
  const id = newId('tok', now)
  await tokens.put(hashToken(secret), { id, tenant, name, scopes, createdAt, expiresAt, parentId: null })
  return secret
}

/** Registers the token of the person who runs this server. */
export async function registerLocalToken(
  tokens: TokenStore,
  token: string,
  privateDir: string,
): Promise<void> {
  await tokens.put(hashToken(token), {
    // A fixed id for this folder: setting another token ends the previous one.
    id: await readOrMakeTokenId(privateDir),
    tenant: 'default',
    name: 'local',
    scopes: [...scopes],
    createdAt: timestamp(systemClock.now()),
    expiresAt: null,
    parentId: null,
  })
}
