import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Client, createClient } from '../../src/client/index.ts'
import { projectFolder } from '../../src/config.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))

describe('command line', () => {
  let project: string
  let data: string
  let server: { process: ChildProcess; output: () => string }
  let client: Client
  let id: string

  beforeAll(async () => {
    project = await mkdtemp(join(tmpdir(), 'waymark-cli-'))
    server = await serve(project)
    data = projectFolder(join(project, 'state', 'waymark'), project)
    const url = /API +(http\S+)\/api\/v1/.exec(server.output())?.[1] ?? ''
    client = createClient({ url, token: (await readFile(join(data, 'token'), 'utf8')).trim() })
    id = (await client.createConversation({ title: 'A \u001b[31mtitle', workspace_id: 'Another.Place' })).id
  })
  afterAll(async () => {
    server.process.kill('SIGKILL')
    await rm(project, { recursive: true, force: true })
  })

  it('serve prints its address, keeps its token private and puts no data folder in the project', async () => {
    expect(server.output()).toMatch(/Open +http:\/\/127\.0\.0\.1:\d+\/login\?code=/)
    expect((await stat(join(data, 'token'))).mode & 0o777).toBe(0o600)
    expect((await stat(data)).mode & 0o777).toBe(0o700)
    expect(existsSync(join(project, '.waymark'))).toBe(false)
  })

  it('serve refuses to start twice for one project', async () => {
    const { code, stderr } = await run('serve')
    expect(code).toBe(1)
    expect(stderr).toMatch(/^waymark: a server for \S+ is already running at http/)
  })

  it('log shows the most recent conversation without control characters, and its frames with --json', async () => {
    const { stdout } = await run('log')
    expect(stdout).toBe('· title: A \ufffd[31mtitle\n\n')
    const frames = (await run('log', id, '--json')).stdout.trimEnd().split('\n')
    expect(frames.map((frame) => JSON.parse(frame).kind)).toEqual(['conversation.created'])
  })

  it('verify and rebuild work while a server is running', async () => {
    expect(await run('verify')).toMatchObject({ code: 0, stdout: '1 segment, 1 event, 0 blobs: clean\n' })
    expect(JSON.parse((await run('verify', '--json')).stdout)).toEqual({
      segments: 1,
      events: 1,
      contents: 0,
      flaws: [],
      damaged: [],
    })
    expect(await run('rebuild')).toMatchObject({ code: 0, stdout: 'rebuilt from 1 event\n' })
    expect((await client.conversation(id)).title).toContain('title')
  })

  it('serves a restored backup without further consent', async () => {
    const place = await mkdtemp(join(tmpdir(), 'waymark-cli-'))
    const [copy, restored] = [join(place, 'copy'), join(place, 'restored')]
    expect(await run('backup', copy)).toMatchObject({ code: 0 })
    expect(await run('restore-backup', copy, '--data-dir', restored)).toMatchObject({ code: 0 })
    expect(await run('verify', '--data-dir', restored)).toMatchObject({ code: 0, stderr: '' })
    await rm(place, { recursive: true })
  })

  it('token creates, lists and revokes tokens', async () => {
    const secret = (await run('token', 'create', 'reader', '--days', '1')).stdout.trim()
    const reader = createClient({ url: clientUrl(), token: secret })
    expect((await reader.conversation(id)).id).toBe(id)
    await expect(reader.deleteConversation(id)).rejects.toMatchObject({ code: 'missing_scope' })
    const line = (await run('token', 'list')).stdout.split('\n').find((text) => text.includes('reader')) ?? ''
    expect(line).not.toContain(secret)
    expect((await run('token', 'revoke', line.split(' ')[0] ?? '')).code).toBe(0)
    await expect(reader.conversation(id)).rejects.toMatchObject({ code: 'unauthorized' })
  })

  it.each([
    [['log', 'conv_x'], /^waymark: There is no such conversation\.$/m],
    [['log', '--project', '/nowhere'], /^waymark: folder not found: \/nowhere$/m],
    [['log', '--url', 'http://127.0.0.1:9'], /^waymark: can't connect to http:\/\/127\.0\.0\.1:9 /],
    [['verify', '--data-dir', 'none'], /^waymark: no ledger found in /],
    [['token', 'list', '--data-dir', 'none'], /^waymark: no ledger found in /],
    [['serve', '--port', 'x'], /^waymark: --port must be a whole number from 0 to 65535 \(got "x"\)$/m],
    [['token', 'create', 'x', '--scopes', 'all'], /^waymark: unknown scope: "all"$/m],
    [['token', 'revoke', 'tok_x'], /^waymark: no token with id tok_x$/m],
    [['nonsense'], /unknown command 'nonsense'/],
  ])('%j fails with a one-line error', async (args, message) => {
    const { code, stderr } = await run(...args)
    expect(code).toBe(1)
    expect(stderr).toMatch(message)
    expect(stderr).not.toMatch(/ at .*\.ts:\d+/)
  })

  it('leaves a foreign data folder untouched', async () => {
    const other = await mkdtemp(join(tmpdir(), 'waymark-cli-'))
    await writeFile(join(other, '.gitignore'), 'node_modules\n')
    await chmod(other, 0o755)
    const { code, stderr } = await run('token', 'create', 'x', '--project', other, '--data-dir', '.')
    expect({ code, stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/was not created by you on this machine/),
    })
    expect(await readFile(join(other, '.gitignore'), 'utf8')).toBe('node_modules\n')
    expect((await stat(other)).mode & 0o777).toBe(0o755)
    await rm(other, { recursive: true })
  })

  it('rejects invalid and unknown settings in the config file', async () => {
    const other = await mkdtemp(join(tmpdir(), 'waymark-cli-'))
    await writeFile(join(other, 'waymark.config.json'), JSON.stringify({ port: 'not a port' }))
    expect((await run('serve', '--project', other)).stderr).toMatch(
      /^waymark: port in waymark\.config\.json must be /,
    )
    await writeFile(join(other, 'waymark.config.json'), JSON.stringify({ prot: 1 }))
    expect((await run('serve', '--project', other)).stderr).toMatch(/unknown settings: prot/)
    await rm(other, { recursive: true })
  })

  it('Ctrl-C stops the server while a client follows, and it can start again', async () => {
    const stop = new AbortController()
    const stream = client.stream(id, { signal: stop.signal })
    await stream.next()
    const next = stream.next()
    const exited = once(server.process, 'exit')
    server.process.kill('SIGINT')
    // npm forwards the signal that the terminal has already sent.
    await vi.waitFor(() => expect(server.output()).toContain('Stopping'), { timeout: 5000, interval: 5 })
    server.process.kill('SIGINT')
    const [code] = await exited
    expect(code).toBe(0)
    expect(existsSync(join(data, 'server.json'))).toBe(false)
    stop.abort()
    await next
    server = await serve(project)
    expect((await run('log', '--json')).stdout).toContain(id)
  })

  function clientUrl(): string {
    return /API +(http\S+)\/api\/v1/.exec(server.output())?.[1] ?? ''
  }

  function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    return new Promise((resolve) => {
      execFile(
        process.execPath,
        [cli, ...args],
        { cwd: project, env: environment(project) },
        (error, stdout, stderr) => {
          resolve({ code: Number(error?.code ?? 0), stdout, stderr })
        },
      )
    })
  }
})

async function serve(project: string) {
  const child = spawn(process.execPath, [cli, 'serve', '--port', '0'], {
    cwd: project,
    env: environment(project),
  })
  let output = ''
  for (const pipe of [child.stdout, child.stderr]) {
    pipe.on('data', (chunk) => {
      output += chunk
    })
  }
  await vi.waitFor(() => expect(output).toContain('Ctrl-C'), { timeout: 20_000, interval: 20 })
  return { process: child, output: () => output }
}

/** The environment of a person's shell, without variables from npm and the test runner. */
function environment(project: string): NodeJS.ProcessEnv {
  const XDG_STATE_HOME = join(project, 'state')
  return { PATH: process.env.PATH, HOME: process.env.HOME, XDG_STATE_HOME }
}
