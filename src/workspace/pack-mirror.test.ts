import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { newBucket } from '../../test/support/s3-server.ts'
import { rounds } from '../../test/support/soak.ts'
import { openObjectStorage, type S3Place } from '../object-storage/s3.ts'
import { openWorkspace, type Workspace } from './workspace.ts'

const s3 = inject('s3')
const RECENT_MS = 2000

/** Processes that each have a project and a data folder, and share one object store. */
describe.skipIf('missing' in s3)(
  `checkpoints in S3 ${'missing' in s3 ? `(skipped: ${s3.missing})` : ''}`,
  () => {
    let bucket: S3Place
    let place: S3Place
    let folder: string
    let opened: Workspace[]
    let count = 0
    beforeAll(async () => {
      bucket = await newBucket(s3)
    })
    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), 'waymark-mirror-'))
      opened = []
      place = { ...bucket, prefix: `test-${++count}/` }
    })
    afterEach(async () => {
      for (const one of opened) await one.close()
      rmSync(folder, { recursive: true, force: true })
    })

    interface Machine {
      root: string
      workspace: Workspace
      write(path: string, text: string): void
      checkpoint(parents?: string[]): Promise<string>
      files(): Record<string, string>
      restore(target: string): Promise<void>
    }

    function machine(name: string, recentMs = RECENT_MS): Machine {
      const root = join(folder, name, 'project')
      const dataDir = join(folder, name, 'data')
      for (const one of [root, dataDir]) mkdirSync(one, { recursive: true })
      const workspace = openWorkspace({
        root,
        dataDir,
        include: [],
        exclude: [],
        maxFileBytes: 64 * 1024 * 1024,
        umask: 0o022,
        path: process.env.PATH ?? '',
        watch: false,
        mirror: { storage: place, workspaceId: 'Shared.Project', recentMs },
      })
      opened.push(workspace)
      const checkpoint = async (parents: string[] = []) =>
        (await workspace.checkpoint({ label: name, parents, time: Date.now() })).id
      return {
        root,
        workspace,
        checkpoint,
        write: (path, text) => writeFileSync(join(root, path), text),
        files: () =>
          Object.fromEntries(readdirSync(root).map((path) => [path, readFileSync(join(root, path), 'utf8')])),
        async restore(target) {
          const safety = await checkpoint()
          const { skipped } = await workspace.restore({ target, safety, paths: null })
          expect(skipped).toEqual([])
        },
      }
    }

    async function packsThere(): Promise<string[]> {
      const storage = await openObjectStorage(place)
      const listed = await Array.fromAsync(storage.list('packs/'))
      storage.close()
      return listed.map((one) => one.key).filter((key) => key.endsWith('.pack'))
    }

    it('[W4] restores a checkpoint that another process made', async () => {
      const [a, b] = [machine('a'), machine('b')]
      a.write('one.txt', 'from a')
      const first = await a.checkpoint()
      a.write('one.txt', 'changed by a')
      const second = await a.checkpoint([first])
      expect(await b.workspace.has([first, second])).toBe(true)
      await b.restore(first)
      expect(b.files()).toEqual({ 'one.txt': 'from a' })
      await b.restore(second)
      expect(b.files()).toEqual({ 'one.txt': 'changed by a' })
      expect((await b.workspace.differences(first, second)).map((one) => one.path)).toEqual(['one.txt'])
    })

    it('[W4] fetches a pack again when its local file is missing', async () => {
      const a = machine('a')
      a.write('one.txt', 'first')
      const first = await a.checkpoint()
      a.write('one.txt', 'second')
      await a.checkpoint([first])
      await opened.pop()?.close()
      const packs = join(folder, 'a', 'data', 'store', 'objects', 'pack')
      for (const name of readdirSync(packs)) rmSync(join(packs, name))
      const again = machine('a')
      await again.restore(first)
      expect(again.files()).toEqual({ 'one.txt': 'first' })
    })

    it('fetches everything into an empty folder, including large files in parts', async () => {
      const a = machine('a')
      // Text that does not compress, so that the pack has several parts.
      const large = Array.from({ length: 3_000_000 }, () => Math.random().toString(36).slice(2, 16)).join('')
      a.write('large.txt', large)
      const id = await a.checkpoint()
      const b = machine('b')
      await b.restore(id)
      expect(b.files()['large.txt'] === large).toBe(true)
    })

    it('[W7] fails a checkpoint when its upload fails, and uploads it with the next', async () => {
      const a = machine('a')
      a.write('one.txt', 'one')
      const wanted = place
      place = { ...place, bucket: 'no-such-bucket' }
      const broken = machine('broken')
      broken.write('one.txt', 'one')
      await expect(broken.checkpoint()).rejects.toThrow(/no-such-bucket/)
      place = wanted
      // With the right bucket, objects that exist only in this folder are uploaded too.
      await opened.pop()?.close()
      const mended = machine('broken')
      const id = await mended.checkpoint()
      await a.restore(id)
      expect(a.files()).toEqual({ 'one.txt': 'one' })
    })

    it('[D3] leaves one pack after a collection, and other processes continue from it', async () => {
      const [a, b] = [machine('a'), machine('b')]
      const ids: string[] = []
      for (let n = 0; n < 5; n++) {
        a.write('one.txt', `number ${n}`)
        ids.push(await a.checkpoint(ids.slice(-1)))
      }
      expect(await b.workspace.has(ids)).toBe(true)
      expect((await packsThere()).length).toBeGreaterThan(4)
      await a.workspace.collect(ids.slice(2), Date.now(), 2)
      expect(await packsThere()).toHaveLength(1)
      // The other process relied on packs that no longer exist.
      b.write('two.txt', 'two')
      const after = await b.checkpoint()
      const c = machine('c')
      await c.restore(after)
      await c.restore(ids[4] as string)
      expect(c.files()).toEqual({ 'one.txt': 'number 4' })
      // A second process collects for the same deletions without uploading everything again.
      const before = await packsThere()
      await b.workspace.collect(ids.slice(2), Date.now(), 2)
      expect(await packsThere()).toEqual(before)
    })

    it('[W4] stores objects again after a collection in another process dropped them', async () => {
      const [a, b] = [machine('a', 0), machine('b')]
      a.write('one.txt', 'old text')
      const first = await a.checkpoint()
      await b.restore(first)
      a.write('one.txt', 'new text')
      const second = await a.checkpoint([])
      // Git stores whole seconds, so the first checkpoint counts as recent until the next second.
      await expect.poll(async () => (await collected()).length, { timeout: 5000 }).toBe(1)
      async function collected() {
        await a.workspace.collect([second], Date.now(), Date.now())
        return await packsThere()
      }
      // This process has the old text and believes that it is stored.
      const after = await b.checkpoint()
      const c = machine('c')
      await c.restore(after)
      expect(c.files()).toEqual({ 'one.txt': 'old text' })
    })

    it('[W4] loses no checkpoint to a collection in another process', { timeout: 300_000 }, async () => {
      for (let round = 0; round < rounds(1, 20); round++) {
        place = { ...bucket, prefix: `test-${++count}-${round}/` }
        const machines = [machine(`a${round}`), machine(`b${round}`)]
        const kept = new Map<string, Record<string, string>>()
        const work = machines.map(async (one, index) => {
          for (let step = 0; step < rounds(20, 50); step++) {
            // A few texts recur, so that one process collects what the other is about to need.
            one.write(`f${step % 3}.txt`, `text ${(step * 7 + round + index * 3) % 9}`)
            const files = one.files()
            const id = await one.checkpoint()
            kept.set(id, files)
            if ((step + index * 2) % 5 === 4) {
              const roots = [...kept.keys()].filter((_, n, all) => n % 2 === 0 || n > all.length - 3)
              for (const gone of kept.keys()) if (!roots.includes(gone)) kept.delete(gone)
              await one.workspace.collect(roots, Date.now() - RECENT_MS, round * 1000 + step * 10 + index)
            }
          }
        })
        await Promise.all(work)
        const reader = machine(`c${round}`)
        for (const [id, files] of kept) {
          await reader.restore(id)
          expect(reader.files()).toEqual(files)
        }
        for (const one of opened.splice(0)) await one.close()
      }
    })
  },
)
