import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../config.ts'
import { runCommandTool } from './run-command.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'waymark-command-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const SECRETS = {
  OPENAI_API_KEY: 'sk-secret',
  WAYMARK_TOKEN: 'token-secret-0123456789',
  WAYMARK_DATABASE_URL: 'postgres://u:p@h/d',
  GITHUB_TOKEN: 'gh-secret',
  AWS_SECRET_ACCESS_KEY: 'aws-secret',
}

function toolWith(environment: Record<string, string | undefined>) {
  const { commandEnvironment } = readConfig({ project: root }, environment)
  return runCommandTool({ root, environment: commandEnvironment, sandbox: null, network: false })
}

function run(args: object, options: { signal?: AbortSignal; show?: (text: string) => void } = {}) {
  const tool = toolWith({ ...process.env, ...SECRETS, FAVOURITE: 'blue' })
  return tool.run(args, {
    tenant: 'default',
    conversationId: 'conv_x',
    grant: { network: false, outside: false },
    signal: options.signal ?? new AbortController().signal,
    show: options.show ?? (() => {}),
    confirm: async () => {},
  })
}

const isAlive = (pattern: string) => {
  try {
    return execFileSync('pgrep', ['-f', pattern]).length > 0
  } catch {
    return false
  }
}

describe('run_command', () => {
  it('returns output and exit code', async () => {
    expect(await run({ command: 'echo out; echo err >&2; pwd' })).toEqual({
      output: `out\nerr\n${root}\n[Exit code 0.]`,
      isFailed: false,
      exitCode: 0,
    })
    expect(await run({ command: 'printf x; exit 3' })).toEqual({
      output: 'x\n[Exit code 3.]',
      isFailed: true,
      exitCode: 3,
    })
  })

  it('streams output while the command runs', async () => {
    const shown: string[] = []
    await run({ command: 'echo one; sleep 0.3; echo two; sleep 0.3' }, { show: (text) => shown.push(text) })
    expect(shown.join('')).toBe('one\ntwo\n')
    expect(shown.length).toBeGreaterThan(1)
  })

  it('passes on no secrets, and other variables only when they are named', async () => {
    const { output } = await run({ command: 'env' })
    expect(String(output)).toContain('PATH=')
    for (const secret of Object.values(SECRETS)) expect(String(output)).not.toContain(secret)
    expect(String(output)).not.toContain('FAVOURITE')
    const named = readConfig(
      { project: root, commandEnv: 'FAVOURITE,OPENAI_API_KEY' },
      { ...SECRETS, FAVOURITE: 'blue' },
    )
    expect(named.commandEnvironment).toEqual({ FAVOURITE: 'blue' })
  })

  it('kills the whole process group when stopped, including background processes', async () => {
    const stop = new AbortController()
    const mark = `sleep 61.${process.pid}`
    const running = run({ command: `(${mark} &) ; trap '' TERM; ${mark}` }, { signal: stop.signal })
    await expect.poll(() => isAlive(mark)).toBe(true)
    stop.abort(new Error('stopped'))
    await expect(running).rejects.toThrow('stopped')
    await expect.poll(() => isAlive(mark)).toBe(false)
  })

  it('kills a command after its timeout, and reports it', async () => {
    const { output, isFailed } = await run({ command: 'echo begun; sleep 30', timeout_seconds: 1 })
    expect(output).toBe('begun\n[It took longer than 1 s and was killed.]')
    expect(isFailed).toBe(true)
  })

  it('kills background processes when the command ends', async () => {
    const mark = `sleep 62.${process.pid}`
    const { output } = await run({ command: `${mark} & echo done` })
    expect(output).toBe('done\n[Exit code 0.]')
    await expect.poll(() => isAlive(mark)).toBe(false)
  })

  it('keeps the beginning and the end of a very long output', async () => {
    const { output } = await run({ command: 'seq 1 400000' })
    const text = String(output)
    expect(text.length).toBeLessThan(1_100_000)
    expect(text.startsWith('1\n2\n')).toBe(true)
    expect(text).toMatch(/characters omitted/)
    expect(text.endsWith('400000\n[Exit code 0.]')).toBe(true)
  })

  it('ends a command when the server dies, even by SIGKILL', async () => {
    const module = fileURLToPath(new URL('./run-command.ts', import.meta.url))
    const mark = `sleep 63.${process.pid}`
    const script = `import { runCommandTool } from ${JSON.stringify(module)}
      const tool = runCommandTool({ root: ${JSON.stringify(root)}, environment: { PATH: process.env.PATH }, sandbox: null, network: false })
      await tool.run({ command: 'echo begun > begun.txt; ${mark}; echo late > late.txt' }, { signal: new AbortController().signal, show() {}, grant: { network: false, outside: false } })`
    const server = spawn(process.execPath, ['--input-type=module-typescript', '-e', script], {
      stdio: 'inherit',
    })
    const begun = () => readFile(join(root, 'begun.txt'), 'utf8').catch(() => null)
    await expect.poll(begun, { timeout: 10_000 }).toBe('begun\n')
    server.kill('SIGKILL')
    await once(server, 'exit')
    await expect.poll(() => isAlive(mark), { timeout: 10_000 }).toBe(false)
    await expect(readFile(join(root, 'late.txt'))).rejects.toThrow()
  })
})
