import { spawn, spawnSync } from 'node:child_process'
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

it('installs the server package without install scripts, under 120 MB, and serves the page', {
  timeout: 300_000,
}, async () => {
  // Not the page: other tests read it while this one runs.
  run(join(root, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], root)
  run(process.execPath, ['scripts/package.ts', '--pack'], root)
  const consumer = join(folder, 'server')
  const project = join(consumer, 'project')
  run('mkdir', ['-p', project], folder)
  writeFileSync(join(consumer, 'package.json'), '{}')
  const archive = readdirSync(join(root, 'out')).find((name) => name.endsWith('.tgz')) ?? ''
  // Scripts may run here: there must be none.
  const flags = ['--no-audit', '--no-fund', '--prefer-offline', '--silent']
  run('npm', ['install', ...flags, join(root, 'out', archive)], consumer)
  const lock = JSON.parse(readFileSync(join(consumer, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { hasInstallScript?: boolean }>
  }
  const withScripts = Object.entries(lock.packages).filter(([, one]) => one.hasInstallScript)
  expect(withScripts).toEqual([])
  expect(run('find', ['node_modules', '-name', 'binding.gyp'], consumer)).toBe('')
  const megabytes = Number(run('du', ['-sm', 'node_modules'], consumer).split('\t')[0])
  expect(megabytes).toBeLessThan(120)

  const waymark = join(consumer, 'node_modules/.bin/waymark')
  // As in any project of a person: no settings of this test run.
  const env = { PATH: process.env.PATH, HOME: consumer, WAYMARK_EMBEDDER: 'none' }
  const server = spawn(process.execPath, [waymark, 'serve', '--port', '0'], { cwd: project, env })
  try {
    let printed = ''
    server.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()))
    server.stderr.on('data', (bytes: Buffer) => (printed += bytes.toString()))
    await expect.poll(() => printed, { timeout: 60_000 }).toContain('Open ')
    const [origin = ''] = /http:\/\/127\.0\.0\.1:\d+/.exec(printed) ?? []
    const page = await (await fetch(`${origin}/`)).text()
    expect(page).toContain('<script type="module"')
    const said = spawnSync(process.execPath, [waymark, 'send', '--new', SAID], {
      cwd: project,
      env,
      encoding: 'utf8',
    })
    expect(said.stdout + said.stderr).toContain('written by the package')
    expect(readFileSync(join(project, 'new.txt'), 'utf8')).toBe('new')
  } finally {
    server.kill()
  }
})

const SAID = '!write_to_file {"path":"new.txt","content":"new"}\n!say "written by the package"'

it('has the versions of the server package in the client package', () => {
  const read = (path: string) => JSON.parse(readFileSync(join(root, path), 'utf8'))
  const [server, client] = [read('package.json'), read('packages/client/package.json')]
  expect(client.version).toBe(server.version)
  for (const [name, version] of Object.entries(client.dependencies)) {
    expect(server.dependencies[name]).toBe(version)
  }
})
