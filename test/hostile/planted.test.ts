import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createClient } from '../../src/client/index.ts'
import { projectFolder } from '../../src/config.ts'
import { newId } from '../../src/protocol/ids.ts'
import { openStore } from '../../src/server/store.ts'
import { type Canary, createCanary, makeRepository, plantGitDir } from './git-canaries.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))

describe('a cloned project that contains a data folder', () => {
  let folder: string
  let project: string
  let home: string
  let canary: Canary
  let running: ChildProcess[] = []

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'waymark-planted-'))
    project = join(folder, 'project')
    home = join(folder, 'home')
    for (const path of [project, home]) mkdirSync(path)
    canary = createCanary(folder)
    writeFileSync(join(project, 'a.txt'), 'a\n')
  })
  afterEach(() => {
    for (const child of running) child.kill('SIGKILL')
    running = []
    rmSync(folder, { recursive: true, force: true })
  })

  const data = () => projectFolder(join(home, '.local/state/waymark'), project)

  function plant(path: string, text = ''): void {
    mkdirSync(dirname(join(project, path)), { recursive: true })
    writeFileSync(join(project, path), text)
  }

  function start(...args: string[]): { child: ChildProcess; output: () => string } {
    const env = { PATH: process.env.PATH, HOME: home }
    const child = spawn(process.execPath, [cli, ...args], { cwd: project, env })
    running.push(child)
    let text = ''
    for (const pipe of [child.stdout, child.stderr]) pipe?.on('data', (chunk) => (text += chunk))
    return { child, output: () => text }
  }

  /** Starts a server and waits until it is ready or has exited. */
  async function serve(...args: string[]) {
    const { child, output } = start('serve', '--port', '0', ...args)
    const exited = once(child, 'exit')
    const isUp = vi.waitFor(() => expect(output()).toContain('Ctrl-C'), { timeout: 20_000, interval: 20 })
    await Promise.race([exited, isUp])
    // The poll rejects when the server refused to start.
    isUp.catch(() => {})
    const url = /API +(http\S+)\/api\/v1/.exec(output())?.[1] ?? null
    return {
      url,
      output,
      client: () =>
        createClient({ url: url ?? '', token: readFileSync(join(data(), 'token'), 'utf8').trim() }),
      async stop() {
        child.kill('SIGINT')
        await exited
      },
    }
  }

  async function run(...args: string[]): Promise<string> {
    const { child, output } = start(...args)
    await once(child, 'exit')
    return output()
  }

  it('[T1] runs no program from a planted store when Changes is opened', async () => {
    plantGitDir(join(folder, 'evil'), canary)
    plantGitDir(join(project, '.waymark/store'), canary)
    plant('.waymark/store/commondir', join(folder, 'evil'))
    const server = await serve()
    const client = server.client()
    const { id } = await client.createConversation({ title: 'x' })
    const run = await client.sendMessage(id, { content: '!write_to_file {"path":"b.txt","content":"b"}' })
    await expect.poll(async () => (await client.queue(id)).active, { timeout: 15_000 }).toBeNull()
    expect(run.run_id).toMatch(/^run_/)
    await client.session(id)
    await client.diff(id, {})
    await server.stop()
    expect(canary.marks()).toEqual([])
    expect(existsSync(join(project, '.waymark/store/objects/pack'))).toBe(true)
    expect(readdirSync(join(project, '.waymark'))).toEqual(['store'])
  })

  it('[T2] ignores a planted token and a planted server address', async () => {
    plant('.waymark/token', 'planted-token-of-an-attacker\n')
    const heard: string[] = []
    const listener = createServer((request, answer) => {
      heard.push(request.headers.authorization ?? '')
      answer.end('{}')
    }).listen(0, '127.0.0.1')
    await once(listener, 'listening')
    const { port } = listener.address() as AddressInfo
    plant('.waymark/server.json', JSON.stringify({ url: `http://127.0.0.1:${port}`, pid: process.pid }))
    expect(await run('log')).toMatch(/no server is running/)
    const server = await serve()
    const answer = await fetch(`${server.url}/api/v1/about`, {
      headers: { Authorization: 'Bearer planted-token-of-an-attacker' },
    })
    expect(answer.status).toBe(401)
    expect(await run('conversations')).not.toContain('refused')
    await server.stop()
    expect(heard).toEqual([])
    listener.close()
  })

  it('[T2] deletes nothing because of planted cleanup markers', async () => {
    const first = await serve()
    const { id } = await first.client().createConversation({ title: 'kept' })
    await first.stop()
    const copies = join(data(), 'workspaces')
    mkdirSync(copies, { recursive: true })
    for (const name of ['...making', '.making', '...waymark.making', `${newId('conv')}.making`]) {
      writeFileSync(join(copies, name), '')
    }
    writeFileSync(`${data()}.making`, '')
    writeFileSync(join(dirname(data()), `.making`), '')
    const second = await serve()
    expect((await second.client().conversation(id)).title).toBe('kept')
    await second.stop()
    expect(existsSync(join(data(), 'waymark.db'))).toBe(true)
  })

  it('[T1] refuses a data folder in the project that was not made on this machine', async () => {
    for (const name of ['anything', 'store/commondir', 'waymark.db']) {
      plant(`.waymark/${name}`)
      expect((await serve('--data-dir', '.waymark')).output()).toMatch(
        /\.waymark was not created by you on this machine/,
      )
      for (const command of ['doctor', 'verify', 'rebuild']) {
        expect(await run(command, '--data-dir', '.waymark')).toMatch(
          /\.waymark was not created by you on this machine/,
        )
      }
      rmSync(join(project, '.waymark'), { recursive: true })
    }
  })

  it('[T1] refuses a data folder in the project once the repository adds files to it', async () => {
    const first = await serve('--data-dir', '.waymark')
    await first.stop()
    const again = await serve('--data-dir', '.waymark')
    expect(again.url).not.toBeNull()
    await again.stop()
    plant('.waymark/planted')
    expect((await serve('--data-dir', '.waymark')).output()).toMatch(/planted was not made by Waymark/)
    rmSync(join(project, '.waymark/planted'))
    rmSync(join(project, '.waymark/.gitignore'))
    makeRepository(project)
    expect((await serve('--data-dir', '.waymark')).output()).toMatch(
      /contains files from the project's repository/,
    )
  })

  it('[T1] moves a data folder made here by an earlier version out of the project and issues a new token', async () => {
    const old = join(project, '.waymark')
    mkdirSync(old)
    const store = await openStore({ dataDir: old, databaseUrl: null, objectStorage: null })
    await store.close()
    const id = 'a'.repeat(32)
    plant('.waymark/id', `${id}\n`)
    plant('.waymark/token', 'the-token-of-before\n')
    cpSync(old, join(folder, 'copy'), { recursive: true })
    // Without the person's consent the folder stays untouched.
    const without = await serve()
    expect(without.output()).toContain('Ignoring the .waymark folder in this project')
    await without.stop()
    expect(existsSync(join(old, 'waymark.db'))).toBe(true)
    rmSync(data(), { recursive: true })
    mkdirSync(join(home, '.config/waymark'), { recursive: true })
    writeFileSync(join(home, '.config/waymark/trusted'), `data ${id} ${JSON.stringify(old)}\n`)
    const server = await serve()
    expect(server.output()).toContain(`Moved ${old}`)
    expect(readFileSync(join(data(), 'token'), 'utf8')).not.toContain('the-token-of-before')
    await server.stop()
    expect(existsSync(old)).toBe(false)
  })

  it('[T1] continues the history of a moved project with --moved-from', async () => {
    const first = await serve()
    const { id } = await first.client().createConversation({ title: 'moved along' })
    await first.stop()
    const before = project
    project = join(folder, 'elsewhere', 'project')
    cpSync(before, project, { recursive: true })
    rmSync(before, { recursive: true })
    const hinted = await serve()
    expect(hinted.output()).toContain(`--moved-from ${before}`)
    await hinted.stop()
    rmSync(data(), { recursive: true })
    const second = await serve('--moved-from', before)
    expect((await second.client().conversation(id)).title).toBe('moved along')
    await second.stop()
  })
})
