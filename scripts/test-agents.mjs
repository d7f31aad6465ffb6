// Installs Codex, opencode and Claude Code into test/agents/ (about 1 GB, once) and runs the tests of hosted agents against
// each of them, unmodified, with the demo model as their provider.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../test/agents/', import.meta.url))
const isInstalled = ['codex-acp', 'opencode', 'claude-agent-acp'].every((name) =>
  existsSync(`${folder}node_modules/.bin/${name}`),
)
if (!isInstalled) {
  console.log('Installing Codex, opencode and Claude Code (once; about 1 GB) …')
  // Not `npm ci`, which requires the optional packages of all platforms, even those that a registry lacks.
  run(
    'npm',
    ['install', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'],
    folder,
  )
  // opencode puts its program in place with a script of its own.
  run('node', ['postinstall.mjs'], `${folder}node_modules/opencode-ai`)
}
run(
  'npx',
  ['vitest', 'run', 'test/agents', ...process.argv.slice(2)],
  fileURLToPath(new URL('..', import.meta.url)),
)

function run(program, args, cwd) {
  const env = { ...process.env, WAYMARK_TEST_AGENTS: '1' }
  const { status } = spawnSync(program, args, { cwd, env, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
