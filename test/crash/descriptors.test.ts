import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, it } from 'vitest'

const source = (path: string) => JSON.stringify(fileURLToPath(new URL(`../../src/${path}`, import.meta.url)))
let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-descriptors-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Runs a module with at most `limit` open file descriptors. */
async function withLimit(limit: number, script: string): Promise<unknown> {
  const command = `ulimit -n ${limit} && exec "$0" --input-type=module -e "$1"`
  const { stdout } = await promisify(execFile)('sh', ['-c', command, process.execPath, script], {
    cwd: folder,
  })
  return JSON.parse(stdout)
}

it('[W4] keeps few files open however many a restore replaces', async () => {
  const report = await withLimit(
    256,
    `import { openWorkspace } from ${source('workspace/workspace.ts')}
    import { mkdirSync, rmSync, writeFileSync, readdirSync } from 'node:fs'
    mkdirSync('project/src', { recursive: true })
    mkdirSync('data')
    for (let i = 0; i < 1500; i++) writeFileSync('project/src/' + i, 'then ' + i)
    const workspace = openWorkspace({ root: 'project', dataDir: 'data', include: [], exclude: [], maxFileBytes: 1e6,
      umask: 0o22, path: process.env.PATH, watch: false })
    const { id: target } = await workspace.checkpoint({ label: 'x', parents: [], time: Date.now() })
    rmSync('project/src', { recursive: true })
    const { id: safety } = await workspace.checkpoint({ label: 'y', parents: [], time: Date.now() })
    const { restored, skipped } = await workspace.restore({ target, safety, paths: null })
    await workspace.close()
    console.log(JSON.stringify({ restored: restored.length, skipped, files: readdirSync('project/src').length }))`,
  )
  expect(report).toEqual({ restored: 1500, skipped: [], files: 1500 })
})

it('fails a command that can’t open a file descriptor, and keeps running', async () => {
  const outcome = await withLimit(
    64,
    `import { runCommandTool } from ${source('agent/tools/run-command.ts')}
    import { openSync, closeSync } from 'node:fs'
    const tool = runCommandTool({ root: '.', environment: { PATH: process.env.PATH }, sandbox: null, network: false })
    const call = { tenant: 't', conversationId: 'conv_x', signal: new AbortController().signal, show() {},
      async confirm() {}, grant: { network: false, outside: false } }
    const run = () => tool.run({ command: 'echo hi' }, call).then(({ output }) => output, (error) => error.message)
    // Free one descriptor after each call, so that every call runs short at a different point.
    const open = []
    try { for (;;) open.push(openSync('/dev/null')) } catch {}
    const outputs = []
    for (const file of open.slice(0, 14)) {
      outputs.push(await run())
      closeSync(file)
    }
    for (const file of open.slice(14)) closeSync(file)
    console.log(JSON.stringify({ first: outputs[0], last: await run() }))`,
  )
  expect(outcome).toEqual({
    first: expect.stringMatching(/can't be started|no room/),
    last: 'hi\n[Exit code 0.]',
  })
})
