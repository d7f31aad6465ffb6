import type { Scope } from '../protocol/api/service.ts'

/** Who is calling. Tokens are kept as hashes only; a browser's session is a token with an end. */
export interface Token {
  id: string
  tenant: string
  name: string
  scopes: Scope[]
  createdAt: string
  expiresAt: string | null
  /** The token that a browser signed in with; its session ends with it. Null for a token of its own. */
  parentId: string | null
}

export interface TokenStore {
  find(hash: string): Promise<Token | null>
  /** Stores the token; one with the same hash or id is replaced. Another secret under an id ends its sessions. */
  put(hash: string, token: Token): Promise<void>
  list(): Promise<Token[]>
  /** Ends the token and its sessions. False when there is no such token. */
  revoke(id: string): Promise<boolean>
}
