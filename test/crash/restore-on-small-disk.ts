// Restores on a disk with a varying amount of free space and sends the result of each round to its parent process.
// Runs in a separate process; arguments: <disk> <first round> <rounds>
import { randomBytes, randomUUID } from 'node:crypto'
import { appendFileSync, mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Client, ConnectionError, createClient } from '../../src/client/index.ts'
import { readConfig } from '../../src/config.ts'
import { startServer } from '../../src/server/server.ts'
import { stateIn } from '../support/state.ts'
import { everythingIn } from '../support/workspace.ts'

const [disk = '', start = '0', rounds = '5'] = process.argv.slice(2)
const project = join(disk, 'project')
const ballast = join(disk, 'ballast')
const KILOBYTE = 1024

function writeFiles(count: number, prefix: string): void {
  for (let i = 0; i < count; i++) {
    mkdirSync(join(project, `${prefix}${i % 7}`), { recursive: true })
    // Random bytes don't compress, so stored objects take as much space as the files.
    writeFileSync(join(project, `${prefix}${i % 7}`, `${i}.bin`), randomBytes(20 * KILOBYTE))
  }
}

function clearFiles(): void {
  rmSync(project, { recursive: true, force: true })
  mkdirSync(project)
}

/** Fills the disk until `free` bytes are left. */
function fill(free: number): void {
  const { bavail, bsize } = statfsSync(disk)
  const bytes = bavail * bsize - free
  const piece = Buffer.alloc(1024 * KILOBYTE, 1)
  writeFileSync(ballast, '')
  for (let left = bytes; left > 0; left -= piece.length) {
    appendFileSync(ballast, left < piece.length ? piece.subarray(0, left) : piece)
  }
}

/** This process blocks while it reads and writes files, so the server may close an idle connection just as it is used. */
async function again<T>(call: () => Promise<T>): Promise<T> {
  return await call().catch((error: unknown) => {
    if (error instanceof ConnectionError) return call()
    throw error
  })
}

async function send(client: Client, id: string, content: string): Promise<void> {
  const idempotencyKey = randomUUID()
  await again(() => client.sendMessage(id, { content }, { idempotencyKey }))
}

async function idle(client: Client, id: string): Promise<void> {
  for (;;) {
    const { active, items } = await again(() => client.queue(id))
    if (!active && items.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
}

/** `mine` prefixes the paths of the second state: equal to the target's, so that every file is replaced, or different. */
async function round(client: Client, id: string, free: number, mine: string): Promise<object> {
  clearFiles()
  writeFiles(100, 'target')
  await send(client, id, 'keep this')
  await idle(client, id)
  const wanted = everythingIn(project)
  const target = (await client.checkpoints(id, { limit: 1 })).items[0]?.checkpoint_id ?? ''
  clearFiles()
  writeFiles(60, mine)
  await send(client, id, 'and this')
  await idle(client, id)
  const before = everythingIn(project)
  fill(free)
  const idempotencyKey = randomUUID()
  const code = await again(() => client.restore(id, { checkpoint_id: target }, { idempotencyKey })).then(
    ({ skipped }) => (skipped.length === 0 ? 'done' : 'skipped'),
    (error: { code?: string; message: string }) =>
      error.code === 'disk_full' ? error.code : `${error.code}: ${error.message}`,
  )
  const after = everythingIn(project)
  rmSync(ballast, { force: true })
  const isSame = (a: Map<string, string>, b: Map<string, string>) =>
    a.size === b.size && [...a].every(([path, found]) => b.get(path) === found)
  const files = isSame(after, wanted) ? 'wanted' : isSame(after, before) ? 'before' : 'neither'
  // The next message must not apply a restore that was refused.
  await send(client, id, 'hello')
  await idle(client, id)
  const later = isSame(everythingIn(project), after)
  const { failed_change } = await client.session(id)
  const labels = (await client.checkpoints(id, { limit: 5 })).items.map((one) => one.label)
  return { free, code, files, later, failed: failed_change !== null, labels }
}

mkdirSync(project)
const config = readConfig({ project }, stateIn(disk))
const server = await startServer({
  ...config,
  port: 0,
  logLevel: 'silent',
  embedder: 'none',
  gcMinutes: 1000,
})
const client = createClient(server)
const { id } = await client.createConversation()
const results: object[] = []
for (let i = Number(start); i < Number(start) + Number(rounds); i++) {
  // From no space to more than enough, varied slightly in each round.
  const free = ((i * 5) % 32) * 384 * KILOBYTE + Math.floor(Math.random() * 96) * 4 * KILOBYTE
  results.push(await round(client, id, free, i % 2 === 0 ? 'target' : 'mine'))
  await client.collect({ now: true }).catch(() => null)
}
process.send?.(results)
await server.close()
