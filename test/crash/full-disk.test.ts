import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createClient } from '../../src/client/index.ts'
import type { Verified } from '../../src/workers/verify.ts'
import { mountNamespace, onSmallDisk } from '../support/small-disk.ts'

const serverFile = fileURLToPath(new URL('./full-disk-server.ts', import.meta.url))

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-full-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

it('[L3] reports a full disk and streams no frame that was not stored', async (context) => {
  if (!mountNamespace) return context.skip('this system does not allow mounting a small disk')
  const disk = onSmallDisk(mountNamespace, { folder, size: '6m', script: serverFile })
  const server = spawn('unshare', disk, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const { url, token, id } = await answer<{ url: string; token: string; id: string }>(server)
  const client = createClient({ url, token })
  const stop = new AbortController()
  const seen: string[] = []
  const following = (async () => {
    for await (const items of client.stream(id, { signal: stop.signal })) {
      for (const item of items) if (item.type === 'frame') seen.push(item.text)
    }
  })()

  server.send('fill')
  const { stored, code, hasHole } = await answer<{ stored: number; code: string; hasHole: boolean }>(server)
  expect(code).toBe('storage_failed')
  expect(hasHole).toBe(false)
  expect(stored).toBeGreaterThan(1000)
  await expect.poll(() => seen.length).toBe(stored)

  const text: string[] = []
  for await (const items of client.stream(id, { follow: false })) {
    for (const item of items) if (item.type === 'frame') text.push(item.text)
  }
  expect(seen).toEqual(text)

  server.send('verify')
  expect((await answer<Verified>(server)).flaws).toEqual([])
  stop.abort()
  await following
  server.kill('SIGKILL')
  await once(server, 'exit')
})

async function answer<T>(server: ChildProcess): Promise<T> {
  const [message] = await once(server, 'message')
  return message as T
}
