import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
let folder: string

/** Runs a program to its end and returns what it printed. */
function run(command: string, args: string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stdout}${stderr}`)
  return stdout
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-packages-'))
  run('npm', ['run', '--silent', 'build-client'], root)
  run('npm', ['pack', '--silent', '--pack-destination', folder, join(root, 'packages/client')], root)
}, 120_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

it('installs the client package with at most five packages, and its types compile', {
  timeout: 120_000,
}, () => {
  const consumer = join(folder, 'consumer')
  const archive = readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? ''
  run('mkdir', [consumer], folder)
  writeFileSync(join(consumer, 'package.json'), '{"type": "module"}')
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline', '--silent']
  run('npm', ['install', ...flags, join(folder, archive)], consumer)
  const installed = readdirSync(join(consumer, 'node_modules')).filter((name) => !name.startsWith('.'))
  expect(installed.length).toBeLessThanOrEqual(5)
  for (const name of ['better-sqlite3', 'hono', '@langchain']) {
    expect(existsSync(join(consumer, 'node_modules', name))).toBe(false)
  }
  writeFileSync(
    join(consumer, 'main.ts'),
    `import { createClient, type Client, type Transcript } from 'waymark-client'
import { errorCodes, type Conversation } from 'waymark-client/protocol'
const client: Client = createClient({ url: 'http://127.0.0.1:1' })
export async function last(id: string): Promise<Transcript | undefined> {
  const found: Conversation = await client.conversation(id)
  for await (const transcript of client.transcript(found.id)) return transcript
}
console.log(typeof client.fork, errorCodes.includes('queue_full'))
`,
  )
  const options = [
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--lib',
    'esnext,dom',
    '--types',
    '',
  ]
  run(join(root, 'node_modules/.bin/tsc'), [...options, 'main.ts'], consumer)
  expect(run(process.execPath, ['main.js'], consumer)).toBe('function true\n')
})

it('has the versions of the server package in the client package', () => {
  const read = (path: string) => JSON.parse(readFileSync(join(root, path), 'utf8'))
  const [server, client] = [read('package.json'), read('packages/client/package.json')]
  expect(client.version).toBe(server.version)
  for (const [name, version] of Object.entries(client.dependencies)) {
    expect(server.dependencies[name]).toBe(version)
  }
})
