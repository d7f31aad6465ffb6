import { describe, expect, it } from 'vitest'
import type { BlobStore } from '../../core/blobs.ts'

const key = (n: number) => n.toString(16).padStart(2, '0').repeat(32)

/** The contract of every blob store. `later` returns the same store with its clock some hours ahead. */
export function describeBlobs(
  name: string,
  open: () => Promise<{ blobs: BlobStore; later(): Promise<BlobStore> }>,
): void {
  describe(`blobs ${name}`, () => {
    it('returns the stored bytes, and null for an unknown key', async () => {
      const { blobs } = await open()
      const bytes = Buffer.from([0, 255, 10, 13, 0])
      await blobs.put(key(1), bytes)
      await blobs.put(key(1), bytes)
      expect(Buffer.from((await blobs.get(key(1))) ?? [])).toEqual(bytes)
      expect(await blobs.get(key(2))).toBeNull()
    })

    it('lists each key once, in order', async () => {
      const { blobs, later } = await open()
      for (const n of [7, 3, 5]) await blobs.put(key(n), Buffer.from('x'))
      await (await later()).put(key(5), Buffer.from('x'))
      expect(await Array.fromAsync(blobs.keys())).toEqual([key(3), key(5), key(7)])
    })

    it('neither lists nor deletes a blob that was put after the given time', async () => {
      const { blobs } = await open()
      await blobs.put(key(1), Buffer.from('x'))
      const before = Date.now() - 60_000
      expect(await Array.fromAsync(blobs.keys(before))).toEqual([])
      expect(await blobs.delete(key(1), before)).toBe(false)
      expect(await blobs.get(key(1))).not.toBeNull()
    })

    it('[D3] does not delete a blob that was just put again', async () => {
      const { blobs, later } = await open()
      await blobs.put(key(1), Buffer.from('x'))
      const then = await later()
      const hour = 3_600_000
      const isOld = Date.now() + 2 * hour
      expect(await Array.fromAsync(then.keys(isOld))).toEqual([key(1)])
      await then.put(key(1), Buffer.from('x'))
      expect(await Array.fromAsync(then.keys(isOld))).toEqual([])
      expect(await then.delete(key(1), isOld)).toBe(false)
      expect(await then.get(key(1))).not.toBeNull()
    })

    it('deletes a blob', async () => {
      const { blobs } = await open()
      await blobs.put(key(1), Buffer.from('x'))
      expect(await blobs.delete(key(1))).toBe(true)
      expect(await blobs.get(key(1))).toBeNull()
      expect(await blobs.delete(key(1))).toBe(false)
    })
  })
}
