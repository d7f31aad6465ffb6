// The rules of ARCHITECTURE.md's table of folders: which folder may import which, no import cycles, and what a folder must not do.
import { dirname, join, normalize } from 'node:path'

const mayImport: Record<string, readonly string[]> = {
  protocol: [],
  replay: ['protocol'],
  core: ['protocol'],
  'worker-thread': [],
  'object-storage': [],
  'file-lock': [],
  manifest: [],
  stores: ['core', 'object-storage', 'protocol', 'worker-thread'],
  git: [],
  workspace: ['core', 'file-lock', 'git', 'manifest', 'object-storage', 'protocol', 'worker-thread'],
  outbound: [],
  sandbox: [],
  agent: ['core', 'outbound', 'protocol', 'sandbox', 'worker-thread'],
  retrieval: ['core', 'outbound', 'protocol', 'worker-thread'],
  gateway: ['agent', 'core', 'outbound', 'protocol'],
  'demo-model': ['protocol'],
  'agent-sessions': ['agent', 'core', 'protocol'],
  transfer: ['core', 'protocol'],
  lines: ['core', 'protocol'],
  workers: ['core', 'protocol'],
  http: ['core', 'protocol'],
  client: ['protocol', 'replay'],
  acp: ['client', 'protocol'],
  sharing: ['client', 'protocol', 'replay'],
  cli: [
    'acp',
    'agent-routing.ts',
    'agent-sessions',
    'client',
    'protocol',
    'replay',
    'sharing',
    'config.ts',
    'data-dir.ts',
    'trust.ts',
  ],
  'agent-presets.ts': [],
  'settings.ts': [],
  'agent-routing.ts': [],
  'config.ts': ['agent-presets.ts', 'agent-routing.ts', 'object-storage', 'settings.ts'],
  'data-dir.ts': ['protocol'],
  'trust.ts': ['config.ts', 'data-dir.ts', 'git', 'sandbox'],
  web: ['client', 'protocol', 'replay', 'sharing'],
}

/** Composition may import everything, and so may the commands that run without a server. */
const COMPOSITION = 'server'
const offlineCommands = new Set([
  'serve.ts',
  'token.ts',
  'verify.ts',
  'rebuild.ts',
  'doctor.ts',
  'backup.ts',
  'existing-store.ts',
])

/** Runs in a browser too, so it must not need Node. */
const browserSafe = new Set(['protocol', 'replay', 'client', 'sharing', 'web'])

/** The packages that the client package depends on; everything else belongs to the server. */
const clientPackages = new Set(['eventsource-parser', 'zod'])

const databasePackages = /^(better-sqlite3|kysely|pg|sqlite-vec)(\/|$)/
const sqlText =
  /['"`]\s*(select\s[^'"`]*\sfrom\s|insert\s+(or\s+\w+\s+)?into\s|update\s+\w+\s+set\s|delete\s+from\s|create\s+table\s)/i
const clockReads = /\b(Date\.now|performance\.now|new Date)\(\s*\)/
const inputOutput = /^node:(fs|net|http|https|http2|dgram|child_process|worker_threads|cluster|tls|dns)(\/|$)/

const forbiddenImports: Record<string, RegExp> = { core: inputOutput }
const forbiddenText: Record<string, { what: string; pattern: RegExp }[]> = {
  core: [
    { what: 'contains SQL', pattern: sqlText },
    { what: 'reads the clock', pattern: clockReads },
  ],
  workspace: [{ what: 'contains SQL', pattern: sqlText }],
  agent: [{ what: 'contains SQL', pattern: sqlText }],
  retrieval: [{ what: 'contains SQL', pattern: sqlText }],
  lines: [{ what: 'contains SQL', pattern: sqlText }],
  workers: [{ what: 'contains SQL', pattern: sqlText }],
  http: [{ what: 'contains SQL', pattern: sqlText }],
}
const mayUseDatabases = new Set(['stores', 'manifest', 'file-lock', 'agent-sessions', COMPOSITION])

/** Every violation in these sources, which are given by their paths from the repository's root. */
export function findViolations(sources: ReadonlyMap<string, string>): string[] {
  return [...[...sources].flatMap(([file, text]) => violationsIn(file, text)), ...cyclesIn(sources)]
}

function violationsIn(file: string, text: string): string[] {
  const part = partOf(file)
  const found: string[] = []
  if (part !== COMPOSITION && !mayImport[part]) found.push(`${file}: ${part} is not in the table of folders`)
  for (const target of importsOf(text)) {
    const why = target.startsWith('.')
      ? whyNotOurs(file, part, partOf(join(dirname(file), target)))
      : whyNotPackage(part, target)
    if (why !== null) found.push(`${file}: ${why}`)
  }
  for (const { what, pattern } of forbiddenText[part] ?? []) {
    if (pattern.test(text)) found.push(`${file}: ${part} ${what}`)
  }
  return found
}

function whyNotOurs(file: string, from: string, to: string): string | null {
  if (from === COMPOSITION || to === from || mayImport[from]?.includes(to)) return null
  if (from === 'cli' && to === COMPOSITION && offlineCommands.has(file.split('/').at(-1) ?? '')) return null
  return `${from} may not import ${to}`
}

function whyNotPackage(from: string, target: string): string | null {
  if (browserSafe.has(from) && target.startsWith('node:')) {
    return `${from} runs in browsers and may not import ${target}`
  }
  const isClient = from === 'client' || from === 'protocol' || from === 'replay'
  if (isClient && !clientPackages.has(target.split('/')[0] ?? '')) {
    return `${from} is part of the client package and may not import ${target}`
  }
  if (databasePackages.test(target) && !mayUseDatabases.has(from)) return `${from} may not import ${target}`
  return forbiddenImports[from]?.test(target) ? `${from} may not import ${target}` : null
}

/** One line for each group of files that import one another, types included. */
function cyclesIn(sources: ReadonlyMap<string, string>): string[] {
  const edges = new Map(
    [...sources].map(([file, text]) => [
      file,
      importsOf(text)
        .filter((target) => target.startsWith('.'))
        .map((target) => normalize(join(dirname(file), target)))
        .filter((target) => sources.has(target)),
    ]),
  )
  const order = new Map<string, number>()
  const lowest = new Map<string, number>()
  const stack: string[] = []
  const cycles: string[] = []

  // Tarjan's strongly connected components.
  function visit(file: string): void {
    const own = order.size
    order.set(file, own)
    lowest.set(file, own)
    stack.push(file)
    for (const target of edges.get(file) ?? []) {
      if (!order.has(target)) visit(target)
      if (stack.includes(target)) lowest.set(file, Math.min(lowestOf(file), lowestOf(target)))
    }
    if (lowestOf(file) !== own) return
    const group = stack.splice(stack.indexOf(file))
    if (group.length > 1 || edges.get(file)?.includes(file)) {
      cycles.push(`import cycle: ${[...group, file].join(' → ')}`)
    }
  }

  const lowestOf = (file: string) => lowest.get(file) ?? 0
  for (const file of edges.keys()) if (!order.has(file)) visit(file)
  return cycles
}

/** The folder below src, or the file itself when it is directly there; or the page. */
function partOf(file: string): string {
  const path = normalize(file)
  return path.startsWith('web/') ? 'web' : (path.split('/')[1] ?? '')
}

function importsOf(text: string): string[] {
  const found = text.matchAll(
    /(?:^|\n)\s*(?:import|export)\s(?:[\w$*\s{},]+\sfrom\s+)?['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]/g,
  )
  return [...found].map((match) => match[1] ?? match[2] ?? '')
}
