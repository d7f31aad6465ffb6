// Restores on a disk that has less and less room, in a process of its own: <project> <rounds>. Prints what each round came to.
import { randomBytes } from 'node:crypto'
import { appendFileSync, mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Client, createClient } from '../../src/client/index.ts'
import { readConfig } from '../../src/config.ts'
import { startServer } from '../../src/server/server.ts'
import { stateIn } from '../support/state.ts'
import { everythingIn } from '../support/workspace.ts'

const [disk = '', rounds = '5'] = process.argv.slice(2)
const project = join(disk, 'project')
const ballast = join(disk, 'ballast')
const KILOBYTE = 1024

function writeFiles(count: number, prefix: string): void {
  for (let i = 0; i < count; i++) {
    mkdirSync(join(project, `${prefix}${i % 7}`), { recursive: true })
    // Random bytes don't compress: what is stored takes as much room as what is there.
    writeFileSync(join(project, `${prefix}${i % 7}`, `${i}.bin`), randomBytes(20 * KILOBYTE))
  }
}

function clearFiles(): void {
  rmSync(project, { recursive: true, force: true })
  mkdirSync(project)
}

/** Leaves this much. */
function fill(free: number): void {
  const { bavail, bsize } = statfsSync(disk)
  const bytes = bavail * bsize - free
  const piece = Buffer.alloc(1024 * KILOBYTE, 1)
  writeFileSync(ballast, '')
  for (let left = bytes; left > 0; left -= piece.length) {
    appendFileSync(ballast, left < piece.length ? piece.subarray(0, left) : piece)
  }
}

async function idle(client: Client, id: string): Promise<void> {
  for (;;) {
    const { active, items } = await client.queue(id)
    if (!active && items.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 30))
  }
}

/** `mine` are the names of the second state: the target's own, so that every file is replaced, or others. */
async function round(client: Client, id: string, free: number, mine: string): Promise<object> {
  clearFiles()
  writeFiles(100, 'target')
  await client.sendMessage(id, { content: 'keep this' })
  await idle(client, id)
  const wanted = everythingIn(project)
  const target = (await client.checkpoints(id, { limit: 1 })).items[0]?.checkpoint_id ?? ''
  clearFiles()
  writeFiles(60, mine)
  await client.sendMessage(id, { content: 'and this' })
  await idle(client, id)
  const before = everythingIn(project)
  fill(free)
  const code = await client.restore(id, { checkpoint_id: target }).then(
    ({ skipped }) => (skipped.length === 0 ? 'done' : 'skipped'),
    (error: { code?: string }) => error.code ?? String(error),
  )
  const after = everythingIn(project)
  rmSync(ballast, { force: true })
  const isSame = (a: Map<string, string>, b: Map<string, string>) =>
    a.size === b.size && [...a].every(([path, found]) => b.get(path) === found)
  const files = isSame(after, wanted) ? 'wanted' : isSame(after, before) ? 'before' : 'neither'
  // A refused restore must not be carried out by the next message.
  await client.sendMessage(id, { content: 'hello' })
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
for (let i = 0; i < Number(rounds); i++) {
  // From nothing to more than enough, each time a little otherwise.
  const free = ((i * 5) % 32) * 384 * KILOBYTE + Math.floor(Math.random() * 96) * 4 * KILOBYTE
  results.push(await round(client, id, free, i % 2 === 0 ? 'target' : 'mine'))
  await client.collect({ now: true }).catch(() => null)
}
process.send?.(results)
await server.close()
