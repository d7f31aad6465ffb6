import type { Scope } from '../protocol/api/service.ts'

/** A caller's identity. Only hashes of tokens are stored; a browser session is a token that expires. */
export interface Token {
  id: string
  tenant: string
  name: string
  scopes: Scope[]
  createdAt: string
  expiresAt: string | null
  /** The token that a browser signed in with; its session ends with it. Null for a token that is not a session. */
  parentId: string | null
}

export interface TokenStore {
  find(hash: string): Promise<Token | null>
  /** Stores the token, replacing one with the same hash or id. Storing another secret under an id ends its sessions. */
  put(hash: string, token: Token): Promise<void>
  list(): Promise<Token[]>
  /** Ends the token and its sessions. False if the token does not exist. */
  revoke(id: string): Promise<boolean>
}
