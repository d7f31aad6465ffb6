import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { openStore } from '../../src/server/store.ts'
import { readBranches, repositoryFolder } from '../../src/workspace/repository.ts'
import { type ServerProcess, startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'
import { commandEnv, dataIn, stateIn } from '../support/state.ts'
import { everythingIn, gitIn } from '../support/workspace.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
const run = promisify(execFile)
const FILES = 300

let project: string
let server: ServerProcess
beforeEach(() => {
  project = mkdtempSync(join(tmpdir(), 'waymark-files-'))
})
afterEach(async () => {
  await server.kill()
  rmSync(project, { recursive: true, force: true })
})

/** The two states differ in changed, added and removed files, and in a file that becomes a folder. */
function writeFiles(state: 'approved' | 'working'): void {
  for (const name of ['src', 'only-approved', 'only-working', 'swap']) {
    rmSync(join(project, name), { recursive: true, force: true })
  }
  for (let i = 0; i < FILES; i++) {
    const folder = join(project, 'src', `f${i % 10}`)
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, `${i}.txt`), i % 3 === 0 ? `same ${i}` : `${state} ${i} ${'x'.repeat(i * 10)}`)
  }
  mkdirSync(join(project, `only-${state}`))
  for (let i = 0; i < 50; i++) writeFileSync(join(project, `only-${state}`, `${i}.txt`), `${i}`)
  if (state === 'approved') writeFileSync(join(project, 'swap'), 'a file')
  else {
    mkdirSync(join(project, 'swap'))
    writeFileSync(join(project, 'swap', 'inner'), 'in a folder')
  }
}

const operations = {
  restore: (id: string, approved: string) => server.client.restore(id, { checkpoint_id: approved }),
  reset: (id: string) => server.client.reset(id),
  approve: (id: string) => server.client.approve(id),
  snapshot: (id: string) => server.client.sendMessage(id, { content: 'hello' }),
}

it.each(Object.keys(operations) as (keyof typeof operations)[])(
  '[W5] [W6] leaves the files before or after a %s that was killed, never between, with branches matching the ledger',
  { timeout: 3_000_000 },
  async (operation) => {
    server = await startServerProcess(project)
    writeFiles('approved')
    const { id } = await server.client.createConversation()
    await server.client.session(id)
    const approved = everythingIn(project)
    const target = (await server.client.checkpoints(id)).items.at(-1)?.checkpoint_id ?? ''
    let longest = 50
    const outcomes = { before: 0, after: 0 }
    for (let round = 0; round < rounds(3, 50); round++) {
      writeFiles('working')
      const working = everythingIn(project)
      if (operation === 'reset' && round > 0)
        expect((await server.client.session(id)).has_unapproved).toBe(true)
      const started = performance.now()
      const asked = operations[operation](id, target).then(
        () => {
          longest = Math.max(longest, performance.now() - started)
        },
        () => {},
      )
      // Let the first round finish, to measure how long it takes.
      if (round === 0) await asked
      else await new Promise((resolve) => setTimeout(resolve, Math.random() * longest * 1.1))
      await server.kill()
      await asked
      server = await startServerProcess(project)
      await untilRecovered()

      const now = everythingIn(project)
      const isAfter =
        operation === 'restore' || operation === 'reset' ? isSame(now, approved) : isSame(now, working)
      outcomes[isAfter ? 'after' : 'before']++
      if (!isAfter) expect(now).toEqual(working)
      await checkAgreement(id)
    }
    if (operation === 'restore' || operation === 'reset') expect(outcomes.after).toBeGreaterThan(0)
    if (operation === 'snapshot') await untilIdle(id)
    const { stdout } = await run(process.execPath, [cli, 'doctor', '--project', project, '--json'], {
      env: commandEnv(project),
    })
    expect(JSON.parse(stdout).problems).toEqual([])
    const verified = await run(process.execPath, [cli, 'verify', '--project', project], {
      env: commandEnv(project),
    })
    expect(verified.stdout).toMatch(/: clean\n$/)
  },
)

async function untilRecovered(): Promise<void> {
  const config = readConfig({ project }, stateIn(project))
  const store = await openStore(config)
  try {
    await expect.poll(() => store.work.pending(config.workspaceId), { timeout: 60_000 }).toBe(null)
  } finally {
    await store.close()
  }
}

async function untilIdle(id: string): Promise<void> {
  await expect
    .poll(() => server.client.queue(id), { timeout: 60_000 })
    .toMatchObject({ active: null, items: [] })
}

/** Checks that the repository is intact and its branches match the ledger. */
async function checkAgreement(id: string): Promise<void> {
  const dataDir = dataIn(project)
  await untilIdle(id)
  const repository = repositoryFolder(dataDir, id)
  const { sessions, active_session } = await server.client.session(id)
  const { items } = await server.client.checkpoints(id, { limit: 200 })
  const tipOf = (name: string) => items.find((item) => item.work_session === name)?.checkpoint_id
  await expect
    .poll(() => readBranches(dataDir, id)?.heads[active_session], { timeout: 10_000 })
    .toBe(tipOf(active_session) ?? tipOf('main'))
  const branches = readBranches(dataDir, id)
  expect(branches?.current).toBe(active_session)
  expect(branches?.heads.main).toBe(tipOf('main'))
  expect(Object.keys(branches?.heads ?? {}).sort()).toEqual(
    ['main', ...sessions.map((one) => one.name)].sort(),
  )
  expect(gitIn(repository, 'fsck', '--full')).not.toMatch(/error|missing|broken/)
}

function isSame(a: Map<string, string>, b: Map<string, string>): boolean {
  return a.size === b.size && [...a].every(([path, found]) => b.get(path) === found)
}
