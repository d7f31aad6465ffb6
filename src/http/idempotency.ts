import { createHash } from 'node:crypto'
import type { Context } from 'hono'
import type { Idempotency } from '../core/ledger.ts'
import { WaymarkError } from '../protocol/errors.ts'

const MAX_KEY_LENGTH = 255

/** The key and a fingerprint of the request, so that a key reused for a different request is rejected. */
export async function idempotencyOf(c: Context): Promise<Idempotency | undefined> {
  const key = c.req.header('idempotency-key')
  if (key === undefined) return undefined
  if (key === '' || key.length > MAX_KEY_LENGTH) {
    throw new WaymarkError('invalid_request', `Idempotency-Key must have 1 to ${MAX_KEY_LENGTH} characters.`)
  }
  const request = `${c.req.method} ${c.req.path}\n${await c.req.text()}`
  return { key, fingerprint: createHash('sha256').update(request).digest('hex') }
}
