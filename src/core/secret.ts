import { createHash, randomBytes } from 'node:crypto'

export function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** Secrets are 256 random bits, so a plain hash protects them as well as a slow one. */
export function hashToken(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}
