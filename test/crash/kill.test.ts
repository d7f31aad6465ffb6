import { execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createClient } from '../../src/client/index.ts'
import { freePort } from '../support/free-port.ts'
import { rounds } from '../support/soak.ts'
import { commandEnv } from '../support/state.ts'

const serverFile = fileURLToPath(new URL('./appending-server.ts', import.meta.url))
const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
const run = promisify(execFile)

const KILLS = rounds(3, 50)

interface Ready {
  url: string
  token: string
  ids: string[]
}

interface Received {
  texts: string[]
  stop: AbortController
  done: Promise<void>
}

let project: string
beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'waymark-crash-'))
})
afterAll(() => rm(project, { recursive: true, force: true }))

it(`[L3] keeps every frame that a reader received, across ${KILLS} kills during appends`, {
  timeout: 3_000_000,
}, async () => {
  const port = await freePort()
  const readers = new Map<string, Received>()
  for (let kill = 0; kill < KILLS; kill++) {
    const { process: server, ready } = await startAppending(port)
    for (const id of ready.ids) if (!readers.has(id)) readers.set(id, read(ready, id))
    const before = countOf(readers)
    await expect.poll(() => countOf(readers), { timeout: 30_000 }).toBeGreaterThan(before + 200)
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 300))
    server.kill('SIGKILL')
    await once(server, 'exit')
    const { stdout } = await run(process.execPath, [cli, 'verify', '--project', project], {
      env: commandEnv(project),
    })
    expect(stdout).toMatch(/: clean\n$/)
  }

  const { process: server, ready } = await startAppending(port)
  const before = countOf(readers)
  // The readers have reconnected on their own after each kill.
  await expect.poll(() => countOf(readers), { timeout: 30_000 }).toBeGreaterThan(before + 200)
  for (const [id, reader] of readers) {
    reader.stop.abort()
    await reader.done
    expect(reader.texts).toEqual((await readStored(ready, id)).slice(0, reader.texts.length))
  }
  server.kill('SIGKILL')
  await once(server, 'exit')
})

/** Follows a conversation across restarts and checks that there are no gaps or duplicates. */
function read({ url, token }: Ready, id: string): Received {
  const client = createClient({ url, token })
  const reader: Received = { texts: [], stop: new AbortController(), done: Promise.resolve() }
  reader.done = (async () => {
    for await (const items of client.stream(id, { signal: reader.stop.signal, firstWaitMs: 20 })) {
      for (const item of items) {
        if (item.type !== 'frame') throw new Error(`unexpected ${item.type} event`)
        if (item.frame.event_id !== reader.texts.length + 1) throw new Error('a gap or a duplicate')
        reader.texts.push(item.text)
      }
    }
  })()
  return reader
}

async function readStored({ url, token }: Ready, id: string): Promise<string[]> {
  const texts: string[] = []
  for await (const items of createClient({ url, token }).stream(id, { follow: false })) {
    for (const item of items) if (item.type === 'frame') texts.push(item.text)
  }
  return texts
}

function countOf(readers: Map<string, Received>): number {
  return [...readers.values()].reduce((sum, reader) => sum + reader.texts.length, 0)
}

async function startAppending(port: number) {
  const process = fork(serverFile, [project, String(port)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const [ready] = (await once(process, 'message')) as [Ready]
  return { process, ready }
}
