import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { newBucket } from '../../../test/support/s3-server.ts'
import { type ObjectStorage, openObjectStorage, type S3Place } from '../../object-storage/s3.ts'
import { describeBlobs } from './blobs.contract.ts'
import { claimS3Blobs, createS3Blobs } from './s3.ts'

const s3 = inject('s3')

describe.skipIf('missing' in s3)(`blobs in S3 ${'missing' in s3 ? `(skipped: ${s3.missing})` : ''}`, () => {
  const opened: ObjectStorage[] = []
  let place: S3Place
  let count = 0
  const newStorage = async () => {
    const storage = await openObjectStorage({ ...place, prefix: `test-${++count}/` })
    opened.push(storage)
    return storage
  }
  beforeAll(async () => {
    place = await newBucket(s3)
  })
  afterAll(() => opened.forEach((storage) => storage.close()))

  describeBlobs('in S3', async () => {
    const storage = await newStorage()
    return {
      blobs: createS3Blobs(storage),
      later: async () => createS3Blobs(storage, () => Date.now() + 3 * 3_600_000),
    }
  })

  it('[D3] deletes a blob from a past hour, but none from the current hour', async () => {
    const storage = await newStorage()
    const hourAgo = createS3Blobs(storage, () => Date.now() - 3_600_000)
    const blobs = createS3Blobs(storage)
    await hourAgo.put('aa'.repeat(32), Buffer.from('old'))
    await blobs.put('bb'.repeat(32), Buffer.from('new'))
    // The server's clock dates both blobs to just now, so only the hour in the name tells them apart.
    const now = Date.now() + 1000
    expect(await Array.fromAsync(blobs.keys(now))).toEqual(['aa'.repeat(32)])
    expect(await blobs.delete('bb'.repeat(32), now)).toBe(false)
    expect(await blobs.delete('aa'.repeat(32), now)).toBe(true)
    expect(await Array.fromAsync(blobs.keys())).toEqual(['bb'.repeat(32)])
  })

  it('keeps the first value when one key is put concurrently', async () => {
    const storage = await newStorage()
    await Promise.all(Array.from({ length: 20 }, (_, n) => storage.putIfAbsent('one', Buffer.from(`${n}`))))
    const first = (await storage.get('one'))?.toString()
    await storage.putIfAbsent('one', Buffer.from('later'))
    expect((await storage.get('one'))?.toString()).toBe(first)
  })

  it('lists more than one page in order', async () => {
    const storage = await newStorage()
    const names = Array.from({ length: 1100 }, (_, n) => `many/${n.toString().padStart(5, '0')}`)
    for (let at = 0; at < names.length; at += 50) {
      await Promise.all(names.slice(at, at + 50).map((name) => storage.put(name, Buffer.from('x'))))
    }
    const listed = await Array.fromAsync(storage.list('many/'))
    expect(listed.map((one) => one.key)).toEqual(names)
  })

  it('reports no sole owner when two databases use one bucket prefix', async () => {
    const storage = await newStorage()
    const first = await claimS3Blobs(storage, 'one')
    expect(await first()).toBe(true)
    const second = await claimS3Blobs(storage, 'two')
    expect([await first(), await second()]).toEqual([false, false])
  })

  it('names the bucket that failed in the error', async () => {
    const storage = await openObjectStorage({ ...place, bucket: 'no-such-bucket' })
    const blobs = createS3Blobs(storage)
    await expect(blobs.put('ab'.repeat(32), Buffer.from('x'))).rejects.toMatchObject({
      code: 'storage_failed',
      message: expect.stringContaining('no-such-bucket'),
    })
    storage.close()
  })

  it('retries after a temporary server failure', async () => {
    let failures = 2
    const server = createServer((_, answer) => {
      answer.writeHead(failures-- > 0 ? 503 : 404).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const port = (server.address() as AddressInfo).port
    const storage = await openObjectStorage({ ...place, endpoint: `http://127.0.0.1:${port}` })
    expect(await storage.has('anything')).toBe(false)
    expect(failures).toBe(-1)
    storage.close()
    server.close()
  })
})
