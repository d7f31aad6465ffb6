import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestServer, type TestServer } from '../support/server.ts'
import { installed } from './real-agents.ts'

const acpx = join(installed, '.bin/acpx')
const waymark = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))

/** A client of others, unmodified, that speaks to `waymark acp`. */
describe.runIf(existsSync(acpx))('acpx', { timeout: 120_000 }, () => {
  let project: string
  let home: string
  let server: TestServer

  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-acpx-'))
    home = mkdtempSync(join(tmpdir(), 'waymark-acpx-home-'))
    server = await startTestServer({ project })
  })
  afterAll(async () => {
    await server.close()
    for (const folder of [project, home]) rmSync(folder, { recursive: true, force: true })
  })

  async function run(...args: string[]): Promise<string> {
    const command = `${process.execPath} --disable-warning=ExperimentalWarning ${waymark} acp --url ${server.url}`
    const all = ['--agent', command, '--approve-all', '--ttl', '1', '--cwd', project, ...args]
    const env = { ...process.env, HOME: home, WAYMARK_TOKEN: server.token }
    return (await promisify(execFile)(acpx, all, { cwd: project, env, timeout: 60_000 })).stdout
  }

  it('completes a conversation with a permission and a reload', async () => {
    await run('sessions', 'new')
    const first = await run('prompt', '!run_command {"command":"echo permitted > p.txt; echo done"}')
    expect(first).toContain('session/request_permission')
    expect(readFileSync(join(project, 'p.txt'), 'utf8')).toBe('permitted\n')
    // Another process of acpx resumes the session.
    const second = await run('prompt', '!say "after the reload"')
    expect(second).toContain('after the reload')
  })
})
