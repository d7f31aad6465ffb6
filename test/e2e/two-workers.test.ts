import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import type { Client } from '../../src/client/index.ts'
import { framesOf, ofKind } from '../support/runs.ts'
import { type ServerProcess, startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'
import { onPostgres } from '../support/stores.ts'

const name = `test_${randomBytes(6).toString('hex')}`
const shared = {
  databaseUrl: `${inject('postgresUrl')}/${name}`,
  workspaceId: 'Shared.Folder',
  tools: { run_command: 'allow' as const },
  leaseSeconds: 1,
}
const processes: ServerProcess[] = []
let project: string
let other: string

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'waymark-shared-'))
  other = await mkdtemp(join(tmpdir(), 'waymark-shared-'))
  await onPostgres(inject('postgresUrl'), `create database ${name}`)
})
afterAll(async () => {
  await Promise.all(processes.map((one) => one.kill()))
  await onPostgres(inject('postgresUrl'), `drop database ${name} with (force)`)
  for (const folder of [project, other]) await rm(folder, { recursive: true, force: true })
})

/** Both workers use the same project folder; each has its own data folder and therefore its own token. */
async function startWorker(dataDir: string): Promise<ServerProcess> {
  const one = await startServerProcess(project, { config: { ...shared, dataDir } })
  processes.push(one)
  return one
}

it('[R1] never runs one conversation on two workers at once', {
  timeout: 120_000,
}, async () => {
  const workers = [await startWorker(join(other, 'a')), await startWorker(join(other, 'b'))]
  const client = workers[0]?.client as Client
  const ids: string[] = []
  for (let count = 0; count < 6; count++) ids.push((await client.createConversation()).id)
  // mkdir fails if two runs of a conversation overlap.
  const alone = (id: string, turn: number) =>
    `!run_command {"command":"mkdir ${id} && sleep 0.05 && rmdir ${id} # ${turn}"}`
  for (let turn = 0; turn < 5; turn++) {
    await Promise.all(
      ids.map(async (id, index) => {
        await workers[(turn + index) % 2]?.client.sendMessage(id, { content: alone(id, turn) })
      }),
    )
  }
  for (const id of ids) {
    await expect
      .poll(async () => ofKind(await framesOf(client, id), 'final').length, { timeout: 60_000 })
      .toBe(5)
    const outputs = ofKind(await framesOf(client, id), 'tool.output')
    expect(outputs.map((frame) => frame.output)).toEqual(Array.from({ length: 5 }, () => '[Exit code 0.]'))
  }
  await Promise.all(workers.map((one) => one.kill()))
})

it('[L8] [R3] rejects appends from a worker that was paused past its lease', {
  timeout: 120_000,
}, async () => {
  const first = await startWorker(join(other, 'a'))
  const { id } = await first.client.createConversation()
  await first.client.sendMessage(id, {
    content: '!run_command {"command":"echo x >> once.txt"}\n!wait 40\n!say 200',
  })
  await expect
    .poll(async () => ofKind(await framesOf(first.client, id), 'message.delta').length, { timeout: 10_000 })
    .toBeGreaterThan(3)
  const second = await startWorker(join(other, 'b'))
  first.process.kill('SIGSTOP')
  await expect
    .poll(async () => ofKind(await framesOf(second.client, id), 'final').length, { timeout: 30_000 })
    .toBe(1)
  const frames = await framesOf(second.client, id)
  first.process.kill('SIGCONT')
  // The first worker responds again, so it has had a chance to write.
  await first.client.conversation(id)
  const another = await first.client.createConversation()
  await first.client.sendMessage(another.id, { content: 'hello' })
  await expect
    .poll(async () => ofKind(await framesOf(first.client, another.id), 'final').length, { timeout: 20_000 })
    .toBe(1)
  expect(await framesOf(first.client, id)).toEqual(frames)

  expect(frames.at(-1)).toMatchObject({ kind: 'final', final: { status: 'completed' } })
  expect(ofKind(frames, 'lifecycle').some((frame) => frame.reason?.includes('interruption'))).toBe(true)
  // The interrupted item is closed, and the tool was not run again.
  expect(ofKind(frames, 'output_item.done').filter((frame) => frame.status === 'incomplete')).toHaveLength(1)
  expect(ofKind(frames, 'tool.output')).toHaveLength(1)
})

it('[R4] keeps a worker that was paused past its lease from overwriting newer files', {
  timeout: 240_000,
}, async () => {
  // The workers have separate data folders; the lock on the project folder still applies.
  for (let round = 0; round < rounds(2, 40); round++) {
    const data = join(other, `shared-${round}`)
    const first = await startServerProcess(project, { config: { ...shared, dataDir: data } })
    processes.push(first)
    const { id } = await first.client.createConversation()
    const path = `paused-${round}.txt`
    const calls = Array.from(
      { length: 30 },
      (_, n) => `!write_to_file {"path":"${path}","content":"old ${n}\\n"}`,
    )
    await first.client.sendMessage(id, { content: calls.join('\n') })
    await expect
      .poll(async () => ofKind(await framesOf(first.client, id), 'file.edit').length, {
        timeout: 20_000,
        interval: 5,
      })
      .toBeGreaterThan(round % 5)
    // Locking the manifest holds the worker inside a write: after its last frame, before it replaces the file.
    const manifest = new Database(join(data, 'manifest.db'), { timeout: 20_000 })
    manifest.exec('begin immediate')
    await new Promise((resolve) => setTimeout(resolve, 700))
    first.process.kill('SIGSTOP')
    manifest.exec('rollback')
    manifest.close()
    const second = await startServerProcess(project, {
      config: { ...shared, dataDir: join(other, `second-${round}`) },
    })
    processes.push(second)
    const hasEnded = async () => ofKind(await framesOf(second.client, id), 'final').length
    // A worker paused during a write keeps the folder lock, and the other worker waits for it.
    await expect
      .poll(hasEnded, { timeout: 15_000 })
      .toBe(1)
      .catch(() => first.process.kill('SIGCONT'))
    await expect.poll(hasEnded, { timeout: 60_000 }).toBe(1)
    const newer = await second.client.createConversation()
    await second.client.sendMessage(newer.id, {
      content: `!write_to_file {"path":"${path}","content":"newer work\\n"}`,
    })
    await expect
      .poll(async () => ofKind(await framesOf(second.client, newer.id), 'final').length, { timeout: 60_000 })
      .toBe(1)
    first.process.kill('SIGCONT')
    // The first worker runs again, so it has had a chance to write.
    const another = await first.client.createConversation()
    await first.client.sendMessage(another.id, { content: 'hello' })
    await expect
      .poll(async () => ofKind(await framesOf(first.client, another.id), 'final').length, { timeout: 30_000 })
      .toBe(1)
    expect(readFileSync(join(project, path), 'utf8')).toBe('newer work\n')
    await Promise.all([first.kill(), second.kill()])
  }
})
