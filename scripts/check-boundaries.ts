// Which folder may import which: ARCHITECTURE.md's table, enforced. Run by `npm run check`.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

const mayImport: Record<string, readonly string[]> = {
  protocol: [],
  replay: ['protocol'],
  core: ['protocol'],
  'object-storage': [],
  stores: ['core', 'object-storage', 'protocol'],
  git: [],
  workspace: ['core', 'git', 'object-storage', 'protocol'],
  outbound: [],
  sandbox: [],
  agent: ['core', 'outbound', 'protocol', 'sandbox'],
  retrieval: ['core', 'outbound', 'protocol'],
  'demo-model': ['protocol'],
  transfer: ['core', 'protocol'],
  lines: ['core', 'protocol'],
  workers: ['core', 'protocol'],
  http: ['core', 'protocol'],
  client: ['protocol', 'replay'],
  cli: ['client', 'protocol', 'replay', 'config.ts', 'data-dir.ts', 'trust.ts'],
  'settings.ts': [],
  'config.ts': ['object-storage', 'settings.ts'],
  'data-dir.ts': ['protocol'],
  'trust.ts': ['config.ts', 'data-dir.ts', 'git', 'sandbox'],
  web: ['client', 'protocol', 'replay'],
}

/** What is put together from everything, and the commands that need it because they run without a server. */
const composers = new Set(['server'])
const cliWithMain = new Set([
  'serve.ts',
  'token.ts',
  'verify.ts',
  'rebuild.ts',
  'doctor.ts',
  'backup.ts',
  'existing-store.ts',
])

/** What also runs in a browser must not need Node. */
const browserSafe = new Set(['protocol', 'replay', 'client', 'web'])

const problems: string[] = []
for (const folder of ['src', 'web']) for (const file of sourceFiles(join(root, folder))) check(file)

if (problems.length > 0) {
  console.error(problems.join('\n'))
  process.exit(1)
}
console.log('boundaries: every import is allowed')

function check(file: string): void {
  const from = partOf(file)
  if (composers.has(from)) return
  const allowed = mayImport[from]
  if (!allowed) return void problems.push(`${shown(file)}: ${from} is not in the table of folders`)
  for (const target of importsOf(file)) {
    if (target.startsWith('.')) checkOwn(file, from, allowed, partOf(join(dirname(file), target)))
    else if (browserSafe.has(from) && target.startsWith('node:')) {
      problems.push(`${shown(file)}: ${from} runs in browsers and may not import ${target}`)
    }
  }
}

function checkOwn(file: string, from: string, allowed: readonly string[], to: string): void {
  if (to === from || allowed.includes(to)) return
  if (from === 'cli' && composers.has(to) && cliWithMain.has(file.split('/').at(-1) ?? '')) return
  problems.push(`${shown(file)}: ${from} may not import ${to}`)
}

/** The folder below src, or the file itself when it lies directly there; or the page. */
function partOf(file: string): string {
  const path = relative(root, file)
  return path.startsWith('web/') ? 'web' : (path.split('/')[1] ?? '')
}

function importsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8')
  const found = text.matchAll(
    /(?:^|\n)\s*(?:import|export)\b[^'"\n;]*?(?:\{[^}]*\}[^'"\n;]*?)?['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]/g,
  )
  return [...found].map((match) => match[1] ?? match[2] ?? '')
}

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !/\.(config|d)\.ts$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/\.(test|contract)\.ts$/.test(path))
}

function shown(file: string): string {
  return relative(root, file)
}
