import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
import { startServerProcess } from '../support/server-process.ts'
import { dataIn, stateIn } from '../support/state.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))

it('doctor and verify report a missing blob and exit with 1', { timeout: 180_000 }, async () => {
  const project = await mkdtemp(join(tmpdir(), 'waymark-doctor-'))
  const server = await startServerProcess(project)
  const { id } = await server.client.createConversation()
  await server.client.sendMessage(id, { content: 'hello' })
  await expect.poll(() => server.client.queue(id)).toMatchObject({ active: null, items: [] })
  await server.kill()
  const run = async (name: string) => {
    const options = { env: { ...process.env, ...stateIn(project) } }
    return await promisify(execFile)(process.execPath, [cli, name, '--project', project], options).then(
      ({ stdout }) => ({ code: 0, said: stdout }),
      ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
        code,
        said: stdout + stderr,
      }),
    )
  }
  expect([(await run('doctor')).code, (await run('verify')).code]).toEqual([0, 0])
  const key = 'a'.repeat(64)
  const database = new Database(join(dataIn(project), 'waymark.db'))
  database.exec(
    `insert into tool_outputs (segment, seq, tool_call_id, output_ref) values (1, 2, 'call', '${key}')`,
  )
  database.close()
  for (const name of ['doctor', 'verify']) {
    const { code, said } = await run(name)
    expect([name, code]).toEqual([name, 1])
    expect(said).toContain(key)
  }
  await rm(project, { recursive: true, force: true })
})
