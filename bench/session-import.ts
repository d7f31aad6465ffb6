// Imports a thousand sessions of 1 GB in all, and imports them again. Peer: parsing the lines of the same files.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  createReadStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { startServerProcess } from '../test/support/server-process.ts'
import { commandEnv } from '../test/support/state.ts'
import { report, say, times } from './support/figure.ts'

const SESSIONS = Number(process.env.WAYMARK_SESSIONS ?? 1000)
const SESSION_BYTES = 1024 * 1024
const cli = fileURLToPath(new URL('../src/cli/waymark.ts', import.meta.url))

const project = mkdtempSync(join(tmpdir(), 'waymark-import-bench-'))
const home = mkdtempSync(join(tmpdir(), 'waymark-import-home-'))
const folder = join(home, '.claude/projects/shop')
mkdirSync(folder, { recursive: true })
for (let index = 0; index < SESSIONS; index++) {
  const id = `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`
  writeFileSync(join(folder, `${id}.jsonl`), sessionText(index))
}
const peer = await seconds(parseAll)
const server = await startServerProcess(project)
let most = 0
const watching = setInterval(() => {
  most = Math.max(most, memoryOf(server.process.pid ?? 0))
}, 200)
const ours = await seconds(importAll)
const imported = await countEvents()
const again = await seconds(importAll)
const isSame = (await countEvents()) === imported
clearInterval(watching)
await server.kill()
for (const one of [project, home]) rmSync(one, { recursive: true, force: true })
say(
  `first ${ours.toFixed(1)} s, again ${again.toFixed(1)} s, ${imported} events, server ${most.toFixed(0)} MB`,
)

const size = `${SESSIONS.toLocaleString('en')} sessions of 1 MB`
report([
  {
    figure: `import of ${size}; peer: parsing their lines`,
    ours: `${ours.toFixed(1)} s`,
    peer: `${peer.toFixed(1)} s`,
    ratio: times(ours / peer),
    wanted: 'at most 60 s',
    met: ours <= 60,
  },
  {
    figure: `the same import again, with ${isSame ? 'no' : 'a'} duplicate; peer: the first import`,
    ours: `${again.toFixed(1)} s`,
    peer: `${ours.toFixed(1)} s`,
    ratio: times(again / ours),
    wanted: 'no duplicate',
    met: isSame,
  },
  {
    figure: 'memory of the server during both imports; peer: the bytes imported',
    ours: `${most.toFixed(0)} MB`,
    peer: `${SESSIONS} MB`,
    ratio: times(most / SESSIONS),
    wanted: 'at most 500 MB',
    met: most <= 500,
  },
])

/** A session as Claude Code stores it: questions, commands with their outputs, files that are read and edited. */
function sessionText(index: number): string {
  const lines: string[] = []
  let bytes = 0
  let number = 0
  const add = (type: 'user' | 'assistant', content: unknown, more: object = {}) => {
    const timestamp = new Date(Date.UTC(2026, 0, 1) + index * 1_000_000 + number * 1000).toISOString()
    const id = `msg_${index}_${number++}`
    const message = { id, role: type, model: 'demo', content, usage: { input_tokens: 10, output_tokens: 20 } }
    const line = JSON.stringify({
      type,
      uuid: id,
      timestamp,
      cwd: project,
      sessionId: `${index}`,
      message,
      ...more,
    })
    lines.push(line)
    bytes += line.length
  }
  while (bytes < SESSION_BYTES) {
    add('user', `Question ${number} of session ${index}: ${words(40)}`)
    for (let call = 0; call < 6; call++) {
      const id = `toolu_${index}_${number}`
      add('assistant', [
        { type: 'tool_use', id, name: 'Bash', input: { command: `cat src/${words(1)}.ts | head` } },
      ])
      const content = words(call === 0 ? 3000 : 500)
      // The result is stored twice: for the model, and for the screen.
      const toolUseResult = { stdout: content, stderr: '', interrupted: false }
      add('user', [{ type: 'tool_result', tool_use_id: id, content }], { toolUseResult })
    }
    add('assistant', [{ type: 'text', text: words(150) }])
  }
  return `${lines.join('\n')}\n`
}

/** As in real texts, a word's frequency falls with its rank. */
function words(count: number): string {
  let text = ''
  for (let at = 0; at < count; at++) text += `${letters(Math.floor(20_000 ** Math.random()))} `
  return text
}

/** Most words have letters only. */
function letters(number: number): string {
  return number === 0 ? 'word' : letters(Math.floor(number / 26)) + String.fromCharCode(97 + (number % 26))
}

async function importAll(): Promise<void> {
  const { url, token } = server
  const env = { ...commandEnv(project), HOME: home, WAYMARK_URL: url, WAYMARK_TOKEN: token }
  const args = [cli, 'import', '--from', 'claude', '--project', project]
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error('the import failed')
}

async function countEvents(): Promise<number> {
  let events = 0
  for (let cursor: string | undefined; ; ) {
    const page = await server.client.listConversations({ limit: 100, ...(cursor ? { cursor } : {}) })
    for (const one of page.items) events += one.head_event_number
    if (page.next_cursor === null) return events
    cursor = page.next_cursor
  }
}

async function parseAll(): Promise<void> {
  for (const name of readdirSync(folder)) {
    for await (const line of createInterface({ input: createReadStream(join(folder, name)) }))
      JSON.parse(line)
  }
}

async function seconds(work: () => Promise<void>): Promise<number> {
  const started = performance.now()
  await work()
  return (performance.now() - started) / 1000
}

/** Resident memory in MB. */
function memoryOf(pid: number): number {
  if (process.platform !== 'linux') {
    return Number(execFileSync('ps', ['-o', 'rss=', '-p', String(pid)]).toString()) / 1024
  }
  const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) / 1024
}
