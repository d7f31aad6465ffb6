// Makes the sessions in test/fixtures/agent-sessions/ by running Codex, opencode and Claude Code, unmodified, with the demo
// model as their provider. They must be installed first: `npm run test:agents`. Then: `npm run session-fixtures`.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { startDemoModel } from '../src/demo-model/server.ts'
import { installed, type RealAgent, realAgents } from '../test/agents/real-agents.ts'

const repository = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '')
const fixtures = fileURLToPath(new URL('../test/fixtures/agent-sessions/', import.meta.url))
/** Stands for the folder of the project, and for everything else that is only on this machine. */
const PROJECT = '/home/you/shop'
const programs: Record<string, { path: string; first: string[]; next: string[] }> = {
  codex: {
    path: '.bin/codex',
    first: ['exec', '--skip-git-repo-check', '-'],
    next: ['exec', '--skip-git-repo-check', 'resume', '--last', '-'],
  },
  opencode: { path: '.bin/opencode', first: ['run'], next: ['run', '--continue'] },
  claude: {
    path: '@anthropic-ai/claude-agent-sdk-linux-x64/claude',
    first: ['-p'],
    next: ['-p', '--continue'],
  },
}

const model = await startDemoModel()
for (const agent of realAgents) {
  const program = programs[agent.name]
  if (!program || !agent.isInstalled) throw new Error(`${agent.name} is not installed`)
  const homes = join(installed, '.homes')
  mkdirSync(homes, { recursive: true })
  const home = mkdtempSync(join(homes, 'session-'))
  const project = mkdtempSync(join(homes, 'project-'))
  const { env = {} } = agent.prepare(home, model.url, false) ?? {}
  for (const [index, message] of messages(agent, project).entries()) {
    await run(
      join(installed, program.path),
      index === 0 ? program.first : program.next,
      message,
      env,
      project,
    )
  }
  const target = join(fixtures, agent.name)
  rmSync(target, { recursive: true, force: true })
  mkdirSync(target, { recursive: true })
  keep(agent.name, home, project, target)
  for (const folder of [home, project]) rmSync(folder, { recursive: true, force: true })
}
await model.close()

function messages(agent: RealAgent, project: string): string[] {
  const patch = '*** Begin Patch\n*** Add File: two.txt\n+alpha\n+beta\n*** End Patch\n'
  const edit =
    agent.edit(join(project, 'two.txt'), 'alpha\nbeta\n') ?? agent.shell(`apply_patch <<'EOF'\n${patch}EOF`)
  return [
    `My name is Ada.\n${agent.shell('echo one > one.txt; echo printed')}\n!say "the first answer"`,
    `Second question.\n${edit}\n${agent.shell('exit 3')}\n!say "the second answer"`,
  ]
}

async function run(
  program: string,
  args: string[],
  message: string,
  env: Readonly<Record<string, string>>,
  cwd: string,
): Promise<void> {
  const child = spawn(program, args, {
    cwd,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  child.stdin.end(message)
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${basename(program)} ended with ${code}`)
}

/** Copies the session, without the paths of this machine. */
function keep(name: string, home: string, project: string, target: string): void {
  const plain = (text: string) =>
    text
      .replaceAll(project, PROJECT)
      .replaceAll(project.replaceAll(/[^A-Za-z0-9]/g, '-'), '-home-you-shop')
      .replaceAll(home, '/home/you')
      .replaceAll(repository, PROJECT)
      .replaceAll(/Linux [\w.-]+/g, 'Linux')
  if (name === 'opencode') {
    const file = join(target, 'opencode.db')
    const from = new Database(join(home, '.local/share/opencode/opencode.db'))
    from.pragma('wal_checkpoint(truncate)')
    from.close()
    copyFileSync(join(home, '.local/share/opencode/opencode.db'), file)
    const database = new Database(file)
    database.pragma('journal_mode = delete')
    for (const { table, column } of [
      { table: 'session', column: 'directory' },
      { table: 'message', column: 'data' },
      { table: 'part', column: 'data' },
    ]) {
      database.function('plain', (text: unknown) => plain(String(text)))
      database.exec(`update ${table} set ${column} = plain(${column})`)
    }
    // Only what a session needs: the rest is caches and this machine's state.
    const needed = new Set(['session', 'message', 'part', 'project'])
    const tables = database
      .prepare("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")
      .pluck()
      .all() as string[]
    database.pragma('foreign_keys = off')
    for (const table of tables.filter((one) => !needed.has(one))) database.exec(`drop table "${table}"`)
    database.exec(`update project set worktree = '/'`)
    database.exec('vacuum')
    database.close()
    return
  }
  const pattern = name === 'codex' ? '.codex/sessions/**/*.jsonl' : '.claude/projects/*/*.jsonl'
  for (const file of globSync(pattern, { cwd: home })) {
    const kept = readFileSync(join(home, file), 'utf8')
      .split('\n')
      .filter((line) => !line.startsWith('{"type":"api-request'))
      .map((line) => (line.length > 1500 ? shortened(line) : line))
    writeFileSync(join(target, basename(file)), plain(kept.join('\n')))
  }
}

/** The agents' long instructions are theirs, and no test needs them. */
function shortened(line: string): string {
  const cut = (value: unknown): unknown => {
    if (typeof value === 'string') return value.length > 500 ? `${value.slice(0, 200)} …` : value
    if (Array.isArray(value)) return value.slice(0, 5).map(cut)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, cut(one)]))
  }
  return JSON.stringify(cut(JSON.parse(line)))
}
