import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { mountNamespace, onSmallDisk } from '../support/small-disk.ts'
import { rounds } from '../support/soak.ts'

const script = fileURLToPath(new URL('./restore-on-small-disk.ts', import.meta.url))

interface Round {
  free: number
  code: string
  files: 'wanted' | 'before' | 'neither'
  later: boolean
  failed: boolean
}

const ROUNDS = 10

async function restoreOnSmallDisk(namespace: readonly string[], first: number): Promise<Round[]> {
  const folder = await mkdtemp(join(tmpdir(), 'waymark-small-'))
  const args = [String(first), String(ROUNDS)]
  const disk = onSmallDisk(namespace, { folder, size: '248m', script, args })
  const child = spawn('unshare', disk, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const [[results]] = (await Promise.all([once(child, 'message'), untilExit(child)])) as unknown as [
    [Round[]],
  ]
  await rm(folder, { recursive: true, force: true })
  return results
}

async function untilExit(child: ChildProcess): Promise<void> {
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`the process exited with ${code}`)
}

it('[W4] [W5] applies a restore on a full disk completely or not at all, and never later', {
  timeout: 3_000_000,
}, async (context) => {
  if (!mountNamespace) return context.skip('this system does not allow mounting a small disk')
  const results: Round[] = []
  // A new disk every ten rounds, since each round's checkpoints stay on it.
  for (let first = 0; first < rounds(10, 300); first += ROUNDS) {
    results.push(...(await restoreOnSmallDisk(mountNamespace, first)))
  }
  for (const one of results) {
    const isRight = one.code === 'done' ? one.files === 'wanted' : one.files === 'before'
    expect(isRight && one.later && !one.failed, JSON.stringify(one)).toBe(true)
  }
  const codes = new Set(results.map((one) => one.code))
  expect(codes).toContain('done')
  expect(codes).toContain('disk_full')
})
