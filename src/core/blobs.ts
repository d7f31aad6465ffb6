/** Where payloads go that are too large for a row. Keys are the SHA-256 of the content, in hex. */
export interface BlobStore {
  /** Resolves once the blob is durable. Putting the same key again is harmless, and counts as put just now. */
  put(key: string, bytes: Uint8Array): Promise<void>
  /** Null when there is no such blob. */
  get(key: string): Promise<Uint8Array | null>
  /** Unless it was put after this time, in milliseconds: then a writer is about to refer to it. Returns whether it was deleted. */
  delete(key: string, putBefore?: number): Promise<boolean>
  /** All, or those that were put before this time. */
  keys(putBefore?: number): AsyncIterable<string>
}
