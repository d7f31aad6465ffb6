/** Stores payloads that are too large for a row. Keys are the SHA-256 of the content, in hex. */
export interface BlobStore {
  /** Resolves once the blob is durable. Putting a key again is harmless and renews its time. */
  put(key: string, bytes: Uint8Array): Promise<void>
  /** Null if the blob does not exist. */
  get(key: string): Promise<Uint8Array | null>
  /**
   * Keeps a blob put after `putBefore` (in milliseconds), because a writer is about to refer to it. Returns whether it
   * was deleted.
   */
  delete(key: string, putBefore?: number): Promise<boolean>
  /** All keys, or those put before this time. */
  keys(putBefore?: number): AsyncIterable<string>
}
