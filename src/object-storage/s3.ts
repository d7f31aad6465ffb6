import { createWriteStream } from 'node:fs'
import { type FileHandle, open, readFile, stat } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { S3Client } from '@aws-sdk/client-s3'

/**
 * The only place that talks to an S3-compatible server. Every call has time limits, and the SDK retries it with backoff;
 * callers check the bytes they read against the hash in the key.
 */
export interface ObjectStorage {
  /** Resolves once the object is durable. Keeps an existing object with this key. */
  putIfAbsent(key: string, bytes: Uint8Array): Promise<void>
  /** Replaces an existing object. */
  put(key: string, bytes: Uint8Array): Promise<void>
  /** Stores a file of any size, with only a part of it in memory at a time. */
  putFile(key: string, path: string): Promise<void>
  /** Writes the object to a new file; false if the object doesn't exist. */
  getFile(key: string, path: string): Promise<boolean>
  /** Null if the object doesn't exist. */
  get(key: string): Promise<Buffer | null>
  has(key: string): Promise<boolean>
  delete(key: string): Promise<void>
  /** Yields objects in key order. */
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
  /** Null to look them up as the AWS tools do. */
  credentials: { accessKeyId: string; secretAccessKey: string; sessionToken?: string } | null
}

/** The server can't be reached or refused the request. */
export class ObjectStorageFailed extends Error {}

/** Takes about half a minute, including the SDK's pauses. */
const ATTEMPTS = 9
const CONNECT_MS = 5000
/** Time limit without any traffic. */
const SILENCE_MS = 30_000
/** Time limit for transferring one whole object. */
const REQUEST_MS = 15 * 60_000
const MAX_SOCKETS = 32
const PART_BYTES = 16 * 1024 * 1024

export async function openObjectStorage(place: S3Place): Promise<ObjectStorage> {
  // Loaded on first use, because loading takes a fifth of a second.
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
      // The object exists: from another writer, or from this request's own first attempt if its response was lost.
      if (condition.IfNoneMatch && (statusOf(error) === 412 || statusOf(error) === 409)) return
      throw translated(error, `store ${key}`, place)
    }
  }

  /** Objects over 5 GB can't be sent in one request, and those over a few megabytes shouldn't be. */
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
      // If the abort fails too, the parts take space until the bucket's rules remove them; report the first error.
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
    // Servers other than AWS rarely have a host name per bucket.
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
    // Keys are hashes of the content, and many servers don't support the SDK's default checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  })
}

async function readWhole(file: FileHandle, into: Buffer, at: number): Promise<void> {
  for (let done = 0; done < into.length; ) {
    const { bytesRead } = await file.read(into, done, into.length - done, at + done)
    if (bytesRead === 0) throw new Error('the file became shorter while it was being sent')
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
  // A missing bucket says nothing about whether the object exists.
  const isMissing = statusOf(error) === 404 && name !== 'NoSuchBucket'
  return isMissing ? new Missing(said, { cause: error }) : new ObjectStorageFailed(said, { cause: error })
}

function nullIfMissing(error: unknown): null {
  if (error instanceof Missing) return null
  throw error
}
