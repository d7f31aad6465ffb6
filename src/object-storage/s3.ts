import { createWriteStream } from 'node:fs'
import { type FileHandle, open, readFile, stat } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { S3Client } from '@aws-sdk/client-s3'

/**
 * The only place that talks to an S3-compatible server. Every call has time limits and is retried with backoff by the SDK;
 * callers check what they read against the hash in its key.
 */
export interface ObjectStorage {
  /** Resolves once the object is durable. An object that is there under this key stays as it is. */
  putIfAbsent(key: string, bytes: Uint8Array): Promise<void>
  /** Replaces what is there. */
  put(key: string, bytes: Uint8Array): Promise<void>
  /** The same for a file of any size, of which only a part is in memory at a time. */
  putFile(key: string, path: string): Promise<void>
  /** Writes the object to a new file; false when there is none. */
  getFile(key: string, path: string): Promise<boolean>
  /** Null when there is none. */
  get(key: string): Promise<Buffer | null>
  has(key: string): Promise<boolean>
  delete(key: string): Promise<void>
  /** In the order of their keys. */
  list(prefix: string): AsyncIterable<StoredObject>
  close(): void
}

export interface StoredObject {
  key: string
  bytes: number
  /** In milliseconds, by the server's clock. */
  modifiedAt: number
}

export interface S3Place {
  bucket: string
  /** Empty, or ends in a slash. */
  prefix: string
  /** Null for AWS itself. */
  endpoint: string | null
  region: string
  /** Null: as the AWS tools find them. */
  credentials: { accessKeyId: string; secretAccessKey: string; sessionToken?: string } | null
}

/** The server can't be reached, or refuses. */
export class ObjectStorageFailed extends Error {}

/** With the SDK's pauses, about half a minute. */
const ATTEMPTS = 9
const CONNECT_MS = 5000
/** Nothing has come or gone for so long. */
const SILENCE_MS = 30_000
/** One object, whole. */
const REQUEST_MS = 15 * 60_000
const MAX_SOCKETS = 32
const PART_BYTES = 16 * 1024 * 1024

export async function openObjectStorage(place: S3Place): Promise<ObjectStorage> {
  // Loaded when it is used: it takes a fifth of a second.
  const sdk = await import('@aws-sdk/client-s3')
  const { bucket: Bucket, prefix } = place
  const client = openClient(sdk, place)
  const keyOf = (key: string) => `${prefix}${key}`

  async function send<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw translated(error, what, place)
    }
  }

  async function put(key: string, Body: Uint8Array, condition: { IfNoneMatch?: string }): Promise<void> {
    const command = new sdk.PutObjectCommand({ Bucket, Key: keyOf(key), Body, ...condition })
    try {
      await client.send(command)
    } catch (error) {
      // A retry of a request whose answer was lost finds its own object.
      if (condition.IfNoneMatch && (statusOf(error) === 412 || statusOf(error) === 409)) return
      throw translated(error, `store ${key}`, place)
    }
  }

  /** Objects over 5 GB can't be sent at once, and those over a few megabytes should not be. */
  async function putParts(key: string, path: string): Promise<void> {
    const target = { Bucket, Key: keyOf(key) }
    const { UploadId } = await client.send(new sdk.CreateMultipartUploadCommand(target))
    const file = await open(path, 'r')
    try {
      const Parts: { ETag: string | undefined; PartNumber: number }[] = []
      const { size } = await file.stat()
      for (let at = 0, PartNumber = 1; at < size; at += PART_BYTES, PartNumber++) {
        const Body = Buffer.alloc(Math.min(PART_BYTES, size - at))
        await readWhole(file, Body, at)
        const { ETag } = await client.send(
          new sdk.UploadPartCommand({ ...target, UploadId, PartNumber, Body }),
        )
        Parts.push({ ETag, PartNumber })
      }
      const MultipartUpload = { Parts }
      await client.send(new sdk.CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload }))
    } catch (error) {
      // What is left of it costs room until the bucket's own rules remove it; why we are here is the error that counts.
      await client.send(new sdk.AbortMultipartUploadCommand({ ...target, UploadId })).catch(() => {})
      throw error
    } finally {
      await file.close()
    }
  }

  return {
    async putFile(key, path) {
      const { size } = await stat(path)
      if (size <= PART_BYTES) await put(key, await readFile(path), { IfNoneMatch: '*' })
      else await send(`store ${key}`, () => putParts(key, path))
    },
    getFile: async (key, path) =>
      (await send(`read ${key}`, async () => {
        const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket, Key: keyOf(key) }))
        await pipeline(Body as Readable, createWriteStream(path, { flags: 'wx' }))
        return true
      }).catch(nullIfMissing)) ?? false,
    putIfAbsent: (key, bytes) => put(key, bytes, { IfNoneMatch: '*' }),
    put: (key, bytes) => put(key, bytes, {}),
    get: (key) =>
      send(`read ${key}`, async () => {
        const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket, Key: keyOf(key) }))
        return Buffer.from((await Body?.transformToByteArray()) ?? [])
      }).catch(nullIfMissing),
    has: async (key) =>
      (await send(`look for ${key}`, () =>
        client.send(new sdk.HeadObjectCommand({ Bucket, Key: keyOf(key) })),
      ).catch(nullIfMissing)) !== null,
    delete: (key) =>
      send(`delete ${key}`, async () => {
        await client.send(new sdk.DeleteObjectCommand({ Bucket, Key: keyOf(key) }))
      }),
    async *list(wanted) {
      for (let ContinuationToken: string | undefined; ; ) {
        const command = new sdk.ListObjectsV2Command({ Bucket, Prefix: keyOf(wanted), ContinuationToken })
        const page = await send(`list ${wanted}`, () => client.send(command))
        for (const { Key = '', Size = 0, LastModified } of page.Contents ?? []) {
          yield { key: Key.slice(prefix.length), bytes: Size, modifiedAt: LastModified?.getTime() ?? 0 }
        }
        ContinuationToken = page.NextContinuationToken
        if (ContinuationToken === undefined) return
      }
    },
    close: () => client.destroy(),
  }
}

function openClient(sdk: typeof import('@aws-sdk/client-s3'), place: S3Place): S3Client {
  const { endpoint, region, credentials } = place
  return new sdk.S3Client({
    region,
    ...(credentials === null ? {} : { credentials }),
    // Servers besides AWS seldom have a host name for each bucket.
    ...(endpoint === null ? {} : { endpoint, forcePathStyle: true }),
    maxAttempts: ATTEMPTS,
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      socketTimeout: SILENCE_MS,
      requestTimeout: REQUEST_MS,
      throwOnRequestTimeout: true,
      httpAgent: { maxSockets: MAX_SOCKETS },
      httpsAgent: { maxSockets: MAX_SOCKETS },
    },
    // Keys are hashes of what is stored; many servers know no other checksum.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  })
}

async function readWhole(file: FileHandle, into: Buffer, at: number): Promise<void> {
  for (let done = 0; done < into.length; ) {
    const { bytesRead } = await file.read(into, done, into.length - done, at + done)
    if (bytesRead === 0) throw new Error('the file has become shorter while it was sent')
    done += bytesRead
  }
}

function statusOf(error: unknown): number | undefined {
  return (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode
}

class Missing extends ObjectStorageFailed {}

function translated(error: unknown, what: string, { bucket, endpoint }: S3Place): ObjectStorageFailed {
  const { name, message } = error as Error
  const said = `could not ${what} in the bucket ${bucket}${endpoint ? ` at ${endpoint}` : ''}: ${message || name}`
  // Without the bucket, nothing that is missing means anything.
  const isMissing = statusOf(error) === 404 && name !== 'NoSuchBucket'
  return isMissing ? new Missing(said, { cause: error }) : new ObjectStorageFailed(said, { cause: error })
}

function nullIfMissing(error: unknown): null {
  if (error instanceof Missing) return null
  throw error
}
