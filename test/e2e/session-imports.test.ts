import { execFile } from 'node:child_process'
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { acceptableHead, acceptableLine } from '../../src/agent-sessions/acceptable.ts'
import { findSessions } from '../../src/agent-sessions/find-sessions.ts'
import type { StoredSession } from '../../src/agent-sessions/stored-session.ts'
import type { SessionAgent, SessionEntry, SessionImport } from '../../src/protocol/api/agent-sessions.ts'
import type { Frame } from '../../src/protocol/frames.ts'
import { allFrames, ask, finalOf, ofKind, runsOf, toolsOf, transcriptOf } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'
import { commandEnv } from '../support/state.ts'

/** Sessions that the real agents have left; `npm run session-fixtures` makes them. */
const fixtures = fileURLToPath(new URL('../fixtures/agent-sessions/', import.meta.url))
const places: Record<SessionAgent, string> = {
  claude: '.claude/projects/-home-you-shop',
  codex: '.codex/sessions/2026/11/18',
  opencode: '.local/share/opencode',
}
const agents = Object.keys(places) as SessionAgent[]

describe('sessions of other agents', () => {
  let home: string
  let server: TestServer
  beforeEach(async () => {
    home = mkdtempSync(join(tmpdir(), 'waymark-sessions-'))
    server = await startTestServer()
  })
  afterEach(async () => {
    await server.close()
    rmSync(home, { recursive: true, force: true })
  })

  /** Puts an agent's sessions where it keeps them. Returns the file. */
  function install(agent: SessionAgent): string {
    const folder = join(home, places[agent])
    mkdirSync(folder, { recursive: true })
    const [name = ''] = readdirSync(join(fixtures, agent))
    copyFileSync(join(fixtures, agent, name), join(folder, name))
    return join(folder, name)
  }

  async function sessionsOf(agent: SessionAgent): Promise<StoredSession[]> {
    const found = await Array.fromAsync(findSessions(agent, { home, variables: {} }))
    return found.flatMap((one) => ('problem' in one ? [] : one))
  }

  async function send(session: StoredSession, isHere = true): Promise<SessionImport> {
    const { agent, id: session_id, folder, startedAt: started_at, title } = session
    const lines = [
      { agent, session_id, folder, is_here: isHere, started_at, title },
      ...(await Array.fromAsync(session.entries())),
    ]
    return await sendLines(lines)
  }

  function sendLines(lines: readonly unknown[]): Promise<SessionImport> {
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('')
    return server.client.importSession(new Blob([text]).stream())
  }

  async function importOnly(agent: SessionAgent): Promise<SessionImport> {
    const [session] = await sessionsOf(agent)
    if (!session) throw new Error('there is no session')
    return await send(session)
  }

  describe.each(agents)('of %s', (agent) => {
    it('become conversations without loss, entry by entry', async () => {
      install(agent)
      const [session] = await sessionsOf(agent)
      const entries = await Array.fromAsync(session?.entries() ?? [])
      const report = await importOnly(agent)
      expect(report).toMatchObject({ status: 'imported', entries: entries.length, added: entries.length })
      const frames = await allFrames(server, report.conversation_id)
      const transcript = transcriptOf(frames)
      const of = <T extends SessionEntry['type']>(type: T) =>
        entries.filter((entry): entry is Extract<SessionEntry, { type: T }> => entry.type === type)
      const messages = ofKind(frames, 'message.user')
      expect(messages.map(({ content, server_timestamp }) => [content, server_timestamp])).toEqual(
        of('message').map(({ text, at }) => [text, at]),
      )
      expect(of('message')).toHaveLength(2)
      expect(ofKind(frames, 'message.delta').map(({ delta }) => delta)).toEqual(
        of('text').map(({ text }) => text),
      )
      expect(of('text').map(({ text }) => text)).toEqual(['the first answer', 'the second answer'])
      const tools = runsOf(transcript).flatMap(toolsOf)
      expect(tools.map(({ argumentsText }) => argumentsText)).toEqual(of('call').map(({ input }) => input))
      expect(tools.map(({ output }) => output)).toEqual(of('output').map(({ output }) => output))
      expect(ofKind(frames, 'file.edit').map(({ path, diff, change }) => [path, diff, change])).toEqual([
        ['two.txt', '@@ -0,0 +1,2 @@\n+alpha\n+beta\n', 'added'],
      ])
      expect(ofKind(frames, 'file.edit')[0]?.tool_call_id).toBe(tools[1]?.toolCallId)
      expect(ofKind(frames, 'import.entry').map(({ entry }) => entry)).toEqual(
        of('other').map(({ entry }) => entry),
      )
      for (const run of runsOf(transcript)) expect(run.status).toBe('completed')
      const total = of('usage').reduce((sum, { output }) => sum + output, 0)
      const finals = ofKind(frames, 'final').map(({ final }) => final)
      expect(finals.map(({ response_text }) => response_text)).toEqual([
        'the first answer',
        'the second answer',
      ])
      expect(finals.reduce((sum, { usage }) => sum + (usage?.output_tokens ?? 0), 0)).toBe(total)
      const { updated_at, created_at } = await server.client.conversation(report.conversation_id)
      expect([created_at, updated_at.slice(0, 13)]).toEqual([
        session?.startedAt,
        session?.startedAt.slice(0, 13),
      ])
    })

    it('are imported once, can be searched, forked and continued with our own agent', async () => {
      install(agent)
      const { conversation_id: id } = await importOnly(agent)
      const before = await allFrames(server, id)
      expect(await importOnly(agent)).toMatchObject({ status: 'present', added: 0, conversation_id: id })
      expect(await allFrames(server, id)).toEqual(before)
      const found = await server.client.search({ q: 'second answer' })
      expect(found.items.some((item) => item.conversation_id === id)).toBe(true)
      const [, second] = (await server.client.messages(id)).items.filter(({ role }) => role === 'user')
      const fork = await server.client.fork(id, { message_id: second?.message_id ?? '' })
      expect(finalOf(await ask(server, fork.id, 'What is my name?')).response_text).toContain('Ada')
      expect(finalOf(await ask(server, id, 'What is my name?')).response_text).toContain('Ada')
      expect(await importOnly(agent)).toMatchObject({ status: 'continued', added: 0 })
      await server.client.deleteConversation(id)
      expect(await importOnly(agent)).toMatchObject({ status: 'deleted', added: 0 })
    })
  })

  it('[W7] of other folders change no files, and forks of them have checkpoints of the project', async () => {
    const at = '2026-01-01T00:00:00.000Z'
    const head = { agent: 'claude', session_id: 's', folder: '/srv/other', is_here: false, started_at: at }
    const { conversation_id: id } = await sendLines([head, { type: 'message', at, text: 'hello' }])
    await expect(server.client.sendMessage(id, { content: 'hi' })).rejects.toMatchObject({
      code: 'workspace_not_here',
    })
    const fork = await server.client.fork(id, {})
    await ask(server, fork.id, '!write_to_file {"path":"new.txt","content":"new"}')
    const { items } = await server.client.checkpoints(fork.id, {})
    expect(items.map(({ label }) => label)).toContain('Initial checkpoint')
    const copy = await server.client.fork(id, { files: 'copy' })
    await ask(server, copy.id, '!write_to_file {"path":"own.txt","content":"own"}')
    expect((await server.client.checkpoints(copy.id, {})).items.length).toBeGreaterThan(0)
  })

  it('that go on after an import are completed by the next one', async () => {
    const file = install('claude')
    const { conversation_id: id } = await importOnly('claude')
    const at = '2026-11-19T10:00:00.000Z'
    const user = { type: 'user', timestamp: at, message: { role: 'user', content: 'And a third question' } }
    const answer = {
      type: 'assistant',
      timestamp: at,
      message: { id: 'msg_9', role: 'assistant', model: 'demo' },
    }
    const text = (content: string) => ({
      ...answer,
      message: { ...answer.message, content: [{ type: 'text', text: content }] },
    })
    appendFileSync(
      file,
      `\n${JSON.stringify(user)}\n${JSON.stringify(text('one'))}\n{"type":"assistant","mess`,
    )
    expect(await importOnly('claude')).toMatchObject({ status: 'updated', added: 3, conversation_id: id })
    appendFileSync(
      file,
      `age":{"id":"msg_10","role":"assistant","content":[{"type":"text","text":"two"}]}}\n`,
    )
    expect(await importOnly('claude')).toMatchObject({ status: 'updated', added: 2 })
    const frames = await allFrames(server, id)
    const runs = runsOf(transcriptOf(frames))
    expect(
      ofKind(frames, 'message.delta')
        .map(({ delta }) => delta)
        .slice(-2),
    ).toEqual(['one', 'two'])
    expect(runs.every(({ status }) => status === 'completed')).toBe(true)
    // Once it was continued here, nothing is mixed into it.
    await ask(server, id, 'go on')
    appendFileSync(file, `${JSON.stringify(text('three'))}\n`)
    expect(await importOnly('claude')).toMatchObject({ status: 'continued', added: 0 })
  })

  it('are left unchanged if their imported part has changed since', async () => {
    const file = install('opencode')
    await importOnly('opencode')
    const database = new Database(file)
    database.exec(`update part set data = replace(data, 'the first answer', 'another answer')`)
    database.close()
    expect(await importOnly('opencode')).toMatchObject({ status: 'changed', added: 0 })
  })

  it('are continued after the agent has changed their title', async () => {
    const file = install('opencode')
    const first = await importOnly('opencode')
    const database = new Database(file)
    database.exec("update session set title = 'another title'")
    database.close()
    expect(await importOnly('opencode')).toMatchObject({ status: 'present' })
    expect((await server.client.conversation(first.conversation_id)).is_titled).toBe(true)
  })

  it('have entries that the server would refuse kept as they are', async () => {
    const at = '2026-01-01T00:00:00.000Z'
    const odd: SessionEntry[] = [
      { type: 'message', at, text: 'hello' },
      { type: 'call', at, call_id: 'c'.repeat(2000), name: 'Bash', input: '{}' },
      { type: 'call', at, call_id: 'one', name: 'B\0ash', input: '{}' },
      { type: 'edit', at, call_id: null, path: '', change: 'added', diff: null },
      { type: 'title', at, title: `a\0${'b'.repeat(600)}` },
      { type: 'other', at, kind: 'constructor', entry: 1 },
      { type: 'other', at, kind: 'constructor', entry: 2 },
    ]
    const head = acceptableHead({
      agent: 'claude',
      session_id: 's',
      folder: '/with/\0',
      is_here: true,
      started_at: at,
    })
    const report = await sendLines([head, ...odd.map((entry) => JSON.parse(acceptableLine(entry)) as object)])
    expect(report).toMatchObject({
      entries: 7,
      others: { 'invalid call': 2, 'invalid edit': 1, constructor: 2 },
    })
    expect((await server.client.conversation(report.conversation_id)).title).toBe(`a${'b'.repeat(499)}`)
  })

  it('show the files at each event, though an edit is of a file outside the project', async () => {
    const at = '2026-01-01T00:00:00.000Z'
    const head = { agent: 'claude', session_id: 's', folder: '/srv', is_here: true, started_at: at }
    const edits = ['/home/ada/plan.md', '../x', 'a//b', '.git/config', 'in.txt'].map((path) => ({
      type: 'edit',
      at,
      call_id: null,
      path,
      change: 'added',
      diff: '@@ -0,0 +1 @@\n+x\n',
    }))
    const { conversation_id: id } = await sendLines([head, { type: 'message', at, text: 'hello' }, ...edits])
    const { head_event_number } = await server.client.conversation(id)
    await ask(server, id, 'go on')
    const found = new Set<string>()
    for (let event = 1; event <= head_event_number; event++) {
      const { items } = await server.client.files(id, { at: event })
      for (const path of items) found.add(path)
    }
    expect([...found]).toEqual(['in.txt'])
  })

  it('keep entries of unknown kinds and unreadable lines, and count them', async () => {
    const file = install('codex')
    const deep = `${'['.repeat(200)}${']'.repeat(200)}`
    const odd = [
      '{"type":"brand_new","payload":{"a":1}}',
      'not json',
      deep,
      'null',
      '{"type":"response_item","payload":{"type":"function_call"}}',
      '{"type":"response_item","payload":{"type":"function_call_output","call_id":"unknown","output":"x"}}',
      '{"timestamp":"not a time","type":"response_item","payload":{"type":"message","role":"assistant","content":7}}',
    ]
    appendFileSync(file, `${odd.join('\n')}\n`)
    const report = await importOnly('codex')
    expect(report.others).toMatchObject({
      brand_new: 1,
      'not readable': 2,
      unknown: 1,
      'response_item function_call': 1,
    })
    const kept = ofKind(await allFrames(server, report.conversation_id), 'import.entry')
    expect(kept.map(({ entry }) => entry)).toContainEqual({ text: 'not json' })
    expect(kept.map(({ entry }) => entry)).toContainEqual({ text: deep })
    expect(kept.filter(({ entry_kind }) => entry_kind === 'output')).toHaveLength(1)
  })

  it('keep long outputs whole, and redact secrets by their names', async () => {
    const head = {
      agent: 'claude',
      session_id: 's',
      folder: null,
      is_here: false,
      started_at: '2026-01-01T00:00:00.000Z',
    }
    const at = head.started_at
    const long = Array.from({ length: 5000 }, (_, n) => `line ${n}`).join('\n')
    const { conversation_id: id } = await sendLines([
      head,
      { type: 'message', at, text: 'x'.repeat(2_000_000) },
      { type: 'call', at, call_id: 'c', name: 'Bash', input: '{"command":"ls","api_key":"sk-planted"}' },
      { type: 'output', at, call_id: 'c', output: long, is_error: false },
    ])
    const frames = await allFrames(server, id)
    expect(ofKind(frames, 'message.user')[0]?.content).toHaveLength(2_000_000)
    const [call] = toolsOf(runsOf(transcriptOf(frames))[0])
    const whole = await server.client.output(id, call?.toolCallId ?? '')
    expect(whole.output).toBe(long)
    expect(JSON.stringify(frames)).not.toContain('sk-planted')
    expect((await server.client.conversation(id)).workspace_id).toBeNull()
  })

  it('are refused when a line is not an entry, without a half conversation', async () => {
    const head = {
      agent: 'codex',
      session_id: 's',
      folder: null,
      is_here: false,
      started_at: '2026-01-01T00:00:00.000Z',
    }
    await expect(sendLines([head, { type: 'message', at: 'now', text: 'x' }])).rejects.toThrow(
      /Line 2 does not match/,
    )
    await expect(sendLines([{ ...head, started_at: '1969-01-01T00:00:00.000Z' }])).rejects.toThrow(/Line 1/)
    await expect(sendLines([{ ...head, agent: 'other' }])).rejects.toThrow(/Line 1 does not match/)
    const { items } = await server.client.listConversations({})
    expect(items).toEqual([])
  })

  it('end a run that is too long, so that none is held in memory whole', async () => {
    const at = '2026-01-01T00:00:00.000Z'
    const head = { agent: 'claude', session_id: 'long', folder: null, is_here: false, started_at: at }
    const texts = Array.from({ length: 20_000 }, () => ({ type: 'text', at, text: '' }))
    const { conversation_id: id } = await sendLines([head, { type: 'message', at, text: 'x' }, ...texts])
    const frames = await allFrames(server, id)
    expect(ofKind(frames, 'final').length).toBeGreaterThan(1)
    expect(ofKind(frames, 'import.session').length).toBeGreaterThan(1)
  })

  it('are imported by waymark import --from, by default only those of the project', async () => {
    install('claude')
    const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
    const { project } = server.config
    const env = { ...commandEnv(project), HOME: home, WAYMARK_URL: server.url, WAYMARK_TOKEN: server.token }
    const importing = async (...more: string[]) => {
      const args = [cli, 'import', '--from', 'claude', '--project', project, ...more]
      return (await promisify(execFile)(process.execPath, args, { env })).stdout
    }
    expect(await importing('--all', '--dry-run')).toMatch(/ kB .*\nFound 1 claude session\./)
    expect((await server.client.listConversations({})).items).toEqual([])
    expect(await importing()).toContain('1 session from other folders skipped; use --all to include them.')
    expect(await importing('--all')).toMatch(
      /^imported {2}conv_\S+ {2}\d+ new entries\nImported 1 claude session; 0 unchanged\./,
    )
    expect(await importing('--all')).toContain('Imported 0 claude sessions; 1 unchanged.')
    const { sessions } = JSON.parse(await importing('--all', '--json')) as { sessions: SessionImport[] }
    expect(sessions).toMatchObject([{ status: 'present', added: 0 }])
  })

  it('are imported although another one cannot be read', async () => {
    const file = install('claude')
    const locked = join(dirname(file), '00000000-0000-0000-0000-000000000000.jsonl')
    writeFileSync(locked, '{}\n', { mode: 0o000 })
    const { project } = server.config
    // Root may read everything, unless it gives up that capability.
    const caps = '-dac_override,-dac_read_search'
    const limited = ['setpriv', `--bounding-set=${caps}`, `--inh-caps=${caps}`]
    const [program, ...first] = [...(process.getuid?.() === 0 ? limited : []), process.execPath]
    const env = { ...commandEnv(project), HOME: home, WAYMARK_URL: server.url, WAYMARK_TOKEN: server.token }
    const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
    const args = [cli, 'import', '--from', 'claude', '--all', '--project', project]
    const failure = await promisify(execFile)(program, [...first, ...args], { env }).catch(
      (error: unknown) => error,
    )
    const { stdout, code } = failure as { stdout: string; code: number }
    expect(stdout).toMatch(/failed {4}session 00000000.*EACCES/)
    expect(stdout).toContain('Imported 1 claude session; 0 unchanged.')
    expect(code).toBe(1)
  })

  it('are found in the folders of their agents, without following links', async () => {
    const file = install('claude')
    const outside = join(home, 'outside.jsonl')
    writeFileSync(outside, '{}\n')
    symlinkSync(outside, join(dirname(file), '00000000-0000-0000-0000-000000000000.jsonl'))
    expect(await sessionsOf('claude')).toHaveLength(1)
    expect(await sessionsOf('codex')).toEqual([])
  })

  it('have the frames of their runs numbered, and verify', async () => {
    for (const agent of agents) install(agent)
    for (const agent of agents) {
      const { conversation_id: id } = await importOnly(agent)
      const frames = await allFrames(server, id)
      const numbers = new Map<string, number>()
      for (const frame of frames as Frame[]) {
        if (frame.stream_id === null) continue
        const next = (numbers.get(frame.stream_id) ?? 0) + 1
        expect(frame.sequence_number).toBe(next)
        numbers.set(frame.stream_id, next)
      }
      expect(numbers.size).toBe(2)
    }
  })
})
