import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Client } from '../../src/client/index.ts'
import { type ServerProcess, startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'
import { commandEnv, dataIn } from '../support/state.ts'
import { everythingIn } from '../support/workspace.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
const run = promisify(execFile)

let project: string
let server: ServerProcess
beforeEach(() => {
  project = mkdtempSync(join(tmpdir(), 'waymark-lines-'))
})
afterEach(async () => {
  await server.kill()
  rmSync(project, { recursive: true, force: true })
})

async function lines(client: Client): Promise<Record<string, string[]>> {
  const found: Record<string, string[]> = {}
  for (const { id } of (await client.listConversations({ limit: 200 })).items) {
    const texts: string[] = []
    for await (const items of client.stream(id, { follow: false })) {
      for (const item of items) if (item.type === 'frame') texts.push(item.text)
    }
    found[id] = texts
  }
  return found
}

async function ask(id: string, content: string): Promise<string> {
  const { message_id } = await server.client.sendMessage(id, { content })
  const idle = async () => {
    const { active, items } = await server.client.queue(id)
    return active === null && items.length === 0
  }
  await expect.poll(idle, { timeout: 60_000, interval: 5 }).toBe(true)
  return message_id
}

async function expectClean(): Promise<void> {
  const doctor = await run(process.execPath, [cli, 'doctor', '--project', project, '--json'], {
    env: commandEnv(project),
  })
  expect(JSON.parse(doctor.stdout).problems).toEqual([])
  const verified = await run(process.execPath, [cli, 'verify', '--project', project], {
    env: commandEnv(project),
  })
  expect(verified.stdout).toMatch(/: clean\n$/)
}

it('[D3] keeps every line when a collection is killed, and finishes it with the next collection', {
  timeout: 1_200_000,
}, async () => {
  server = await startServerProcess(project)
  const { id } = await server.client.createConversation()
  await ask(id, 'I am devansh')
  let longest = 30
  for (let round = 0; round < rounds(2, 40); round++) {
    const kept = await server.client.fork(id)
    const doomed = await ask(
      id,
      `!write_to_file {"path":"f${round}.txt","content":"${'x'.repeat(2000)}"}\n!say 300`,
    )
    const fork = await server.client.fork(id, {
      event_number: (await server.client.conversation(id)).head_event_number - 100,
    })
    await ask(fork.id, '!say 20')
    await ask(id, '!say 200')
    await server.client.deleteMessage(id, doomed)
    await server.client.deleteConversation(kept.id)
    const before = await lines(server.client)
    const started = performance.now()
    const collecting = server.client.collect({ now: true }).then(
      () => {
        longest = Math.max(longest, performance.now() - started)
      },
      () => {},
    )
    if (round === 0) await collecting
    else await new Promise((resolve) => setTimeout(resolve, Math.random() * longest))
    await server.kill()
    await collecting
    server = await startServerProcess(project)
    expect(await lines(server.client)).toEqual(before)
    await server.client.collect({ now: true })
    expect(await lines(server.client)).toEqual(before)
    await expect(server.client.undelete(id, { message_id: doomed })).rejects.toMatchObject({ status: 404 })
    expect((await server.client.collect({ now: true })).events).toBe(0)
  }
  await ask(id, 'what is my name')
  const { items } = await server.client.messages(id)
  expect(items.at(-1)?.content).toBe('Your name is devansh.')
  await expectClean()
})

it('leaves a complete fork or none when a fork with copied files is killed', {
  timeout: 1_200_000,
}, async () => {
  for (let i = 0; i < 400; i++) {
    const folder = join(project, `f${i % 20}`)
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, `${i}.txt`), `${i} ${'x'.repeat(i)}`)
  }
  server = await startServerProcess(project)
  const { id } = await server.client.createConversation()
  await ask(id, 'hello')
  const wanted = everythingIn(project)
  const copies = join(dataIn(project), 'workspaces')
  let longest = 50
  const forks = new Set<string>()
  for (let round = 0; round < rounds(3, 40); round++) {
    const started = performance.now()
    const forking = server.client.fork(id, { files: 'copy' }).then(
      () => {
        longest = Math.max(longest, performance.now() - started)
      },
      () => {},
    )
    if (round === 0) await forking
    else await new Promise((resolve) => setTimeout(resolve, Math.random() * longest * 1.1))
    await server.kill()
    await forking
    server = await startServerProcess(project)
    const { items } = await server.client.branches(id)
    for (const { conversation_id } of items) {
      if (forks.has(conversation_id)) continue
      forks.add(conversation_id)
      expect(everythingIn(join(copies, conversation_id))).toEqual(wanted)
      await ask(conversation_id, '!write_to_file {"path":"mine.txt","content":"mine"}')
    }
    // The server removes incomplete copies when it starts.
    const names = () => (existsSync(copies) ? readdirSync(copies).toSorted() : [])
    const complete = () => [...forks].flatMap((fork) => [fork, `${fork}.base`]).toSorted()
    await expect.poll(names, { timeout: 30_000 }).toEqual(complete())
    expect(everythingIn(project)).toEqual(wanted)
  }
  expect(forks.size).toBeGreaterThan(0)
  await expectClean()
})
