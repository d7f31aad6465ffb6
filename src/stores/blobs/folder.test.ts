import { mkdtemp, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { BlobStore } from '../../core/blobs.ts'
import { claimBlobs } from '../../data-dir.ts'
import { describeBlobs } from './blobs.contract.ts'
import { createFolderBlobs } from './folder.ts'

const KEY = 'ab'.repeat(32)

describeBlobs('in a folder', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'waymark-blobs-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const blobs = createFolderBlobs(folder)
  return {
    blobs,
    // A folder store uses file times, so set them as a put some hours later would.
    later: async () => ({
      ...blobs,
      async put(key, bytes) {
        await blobs.put(key, bytes)
        const then = new Date(Date.now() + 3 * 3_600_000)
        await utimes(join(folder, key.slice(0, 2), key), then, then)
      },
    }),
  }
})

describe('blobs in a folder', () => {
  let folder: string
  let blobs: BlobStore
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waymark-blobs-'))
    blobs = createFolderBlobs(join(folder, 'blobs'))
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  const path = (name: string) => join(folder, 'blobs', KEY.slice(0, 2), name)
  const text = async () => (await blobs.get(KEY))?.toString()

  it('does not delete a blob that was just put again', async () => {
    await blobs.put(KEY, Buffer.from('x'))
    await utimes(path(KEY), 0, 0)
    expect(await Array.fromAsync(blobs.keys(Date.now() - 1000))).toEqual([KEY])
    await blobs.put(KEY, Buffer.from('x'))
    expect(await Array.fromAsync(blobs.keys(Date.now() - 1000))).toEqual([])
    expect(await blobs.delete(KEY, Date.now() - 1000)).toBe(false)
    expect(await text()).toBe('x')
    expect(await blobs.delete(KEY, Date.now() + 1000)).toBe(true)
    expect(await text()).toBe(undefined)
    expect(await blobs.delete(KEY)).toBe(false)
  })

  it('keeps a blob whose deletion was killed halfway, and can delete it again', async () => {
    await blobs.put(KEY, Buffer.from('x'))
    await rename(path(KEY), path(`.${KEY}.deleting`))
    expect(await Array.fromAsync(blobs.keys())).toEqual([KEY])
    expect(await text()).toBe('x')
    await rename(path(KEY), path(`.${KEY}.deleting`))
    expect(await blobs.delete(KEY)).toBe(true)
    expect(await Array.fromAsync(blobs.keys())).toEqual([])
  })

  it('removes old half-written files', async () => {
    await blobs.put(KEY, Buffer.from('x'))
    const half = path(`.${KEY}.0123456789ab`)
    await writeFile(half, 'ha')
    await utimes(half, 0, 0)
    expect(await Array.fromAsync(blobs.keys())).toEqual([KEY])
    await expect(rename(half, half)).rejects.toMatchObject({ code: 'ENOENT' })
  })

  it('reports no sole owner for a folder that two databases have used', () => {
    const first = claimBlobs(folder, 'sqlite')
    expect(first()).toBe(true)
    const second = claimBlobs(folder, '123')
    expect([first(), second()]).toEqual([false, false])
    expect(claimBlobs(folder, '123')()).toBe(false)
  })
})
