/** Where payloads go that are too large for a row. Keys are the SHA-256 of the content, in hex. */
export interface BlobStore {
  /** Resolves once the blob is durable. Putting the same key again is harmless. */
  put(key: string, bytes: Uint8Array): Promise<void>
  /** Null when there is no such blob. */
  get(key: string): Promise<Uint8Array | null>
  delete(key: string): Promise<void>
  keys(): AsyncIterable<string>
}
