import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { testAgent } from '../../test/support/hosted-agents.ts'
import { ask, finalOf } from '../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'
import { rounds } from '../../test/support/soak.ts'
import { linesOf } from '../protocol/lines.ts'
import { likeness } from '../workspace/blame.ts'

describe('blame', () => {
  let project: string
  let sessions: string
  let server: TestServer
  let id: string
  beforeEach(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-blame-'))
    sessions = mkdtempSync(join(tmpdir(), 'waymark-blame-sessions-'))
    server = await startTestServer({ project, tools: { run_command: 'allow' }, ...testAgent(sessions) })
    id = (await server.client.createConversation()).id
  })
  afterEach(async () => {
    await server.close()
    for (const folder of [project, sessions]) rmSync(folder, { recursive: true, force: true })
  })

  const at = (path: string) => join(project, path)
  const write = (content: string) => `!write_to_file ${JSON.stringify({ path: 'a.txt', content })}`
  const replace = (search: string, put: string) =>
    `!replace_in_file ${JSON.stringify({ path: 'a.txt', search, replace: put })}`
  const command = (text: string) => `!run_command ${JSON.stringify({ command: text })}`
  /** Calls the agent's tools; the message says what for. */
  const say = async (message: string, ...calls: string[]) => {
    const frames = await ask(server, id, [message, ...calls].join('\n'))
    expect(finalOf(frames).status).toBe('completed')
  }

  /** Each line with its author: the message's first line and the tool, or what else wrote it. */
  async function blamed(path = 'a.txt', of = id): Promise<string[]> {
    const { text, lines, authors } = await server.client.blame(of, path)
    const all = linesOf(text)
    return lines.flatMap(({ from, to, author }) => {
      const { kind, message, tool, agent } = authors[author] ?? { kind: 'missing' }
      const who = message ? `${agent ?? 'own'}: ${message.split('\n')[0]} (${tool})` : kind
      return all.slice(from - 1, to).map((line) => `${line} — ${who}`)
    })
  }

  it('[W1] names each of three messages, a command, a hosted agent and a person', async () => {
    await say('first', write('one\ntwo\nthree\nfour\n'))
    await say('second', replace('two\n', 'two changed\n'))
    writeFileSync(at('a.txt'), `${readFileSync(at('a.txt'), 'utf8')}by a person\n`)
    await say('third', '!read_file {"path":"a.txt"}', replace('three\n', 'three changed\n'))
    await say('fourth', command('echo by a command >> a.txt'))
    await server.client.changeConversation(id, { agent: 'test' })
    await ask(server, id, 'fifth\n!shell echo by a hosted agent >> a.txt')
    expect(await blamed()).toEqual([
      'one — own: first (write_to_file)',
      'two changed — own: second (replace_in_file)',
      'three changed — own: third (replace_in_file)',
      'four — own: first (write_to_file)',
      'by a person — outside',
      'by a command — own: fourth (run_command)',
      expect.stringMatching(/^by a hosted agent — test: fifth \(test__/),
    ])
    const { authors } = await server.client.blame(id, 'a.txt')
    for (const { kind, event_number } of authors) expect(event_number === null).toBe(kind === 'outside')
  })

  it('names a file that no conversation has touched, and refuses one without lines', async () => {
    writeFileSync(at('a.txt'), 'here before\n')
    writeFileSync(at('b.bin'), Buffer.from([0, 1, 2]))
    await say('hello')
    expect(await blamed()).toEqual(['here before — outside'])
    for (const path of ['b.bin', 'missing.txt', '../outside.txt']) {
      await expect(server.client.blame(id, path)).rejects.toMatchObject({ code: 'invalid_request' })
    }
  })

  it('follows a file through renames, by a command, a person and the tools of the agent', async () => {
    await say('first', write('one\ntwo\nthree\nfour\nfive\n'))
    await say('rename', command('mv a.txt b.txt'))
    expect(await blamed('b.txt')).toEqual(
      ['one', 'two', 'three', 'four', 'five'].map((line) => `${line} — own: first (write_to_file)`),
    )
    renameSync(at('b.txt'), at('c.txt'))
    writeFileSync(at('c.txt'), readFileSync(at('c.txt'), 'utf8').replace('two', 'two by a person'))
    await say('look')
    const text = readFileSync(at('c.txt'), 'utf8').replace('three', 'three by a tool')
    const written = `!write_to_file ${JSON.stringify({ path: 'd.txt', content: text })}`
    await say('move', written, `!delete_file ${JSON.stringify({ path: 'c.txt' })}`)
    expect(await blamed('d.txt')).toEqual([
      'one — own: first (write_to_file)',
      'two by a person — outside',
      'three by a tool — own: move (write_to_file)',
      'four — own: first (write_to_file)',
      'five — own: first (write_to_file)',
    ])
  })

  it('follows a file that was renamed before any checkpoint had it, or its last edit', async () => {
    await say('first', write('one\ntwo\nthree\n'))
    renameSync(at('a.txt'), at('b.txt'))
    expect(await blamed('b.txt')).toEqual(
      ['one', 'two', 'three'].map((line) => `${line} — own: first (write_to_file)`),
    )
    await say('look')
    const replaced = { path: 'b.txt', search: 'two', replace: 'two and a half' }
    await say('second', `!replace_in_file ${JSON.stringify(replaced)}`)
    renameSync(at('b.txt'), at('c.txt'))
    writeFileSync(at('c.txt'), `${readFileSync(at('c.txt'), 'utf8')}by a person\n`)
    const lines = [
      'one — own: first (write_to_file)',
      'two and a half — own: second (replace_in_file)',
      'three — own: first (write_to_file)',
      'by a person — outside',
    ]
    expect(await blamed('c.txt')).toEqual(lines)
    await say('look again')
    expect(await blamed('c.txt')).toEqual(lines)
  })

  it('names the own call of each of two files with the same text', async () => {
    const written = (path: string) =>
      `!write_to_file ${JSON.stringify({ path, content: 'import os\nimport sys\n' })}`
    await say('stubs', written('b.py'), written('a.py'))
    await say('look')
    const calls = async (path: string) =>
      (await server.client.blame(id, path)).authors.map((one) => one.tool_call_id)
    const [own, other] = [await calls('b.py'), await calls('a.py')]
    expect([own, other]).toEqual([[expect.any(String)], [expect.any(String)]])
    expect(own).not.toEqual(other)
  })

  it('takes a new file for a renamed one only if they share lines that tell something', () => {
    const json = (name: string) =>
      [
        '{',
        `  "name": "${name}",`,
        '  "items": [',
        '    {',
        `      "id": "${name}1"`,
        '    }',
        '  ]',
        '}',
      ].join('\n')
    expect(likeness(json('one'), json('other'))).toBeLessThan(0.5)
    expect(likeness('one\ntwo\nthree\n', 'one\ntwo\nthree\nfour\n')).toBeGreaterThan(0.5)
    expect(likeness('}\n}\n\n', '}\n')).toBe(0)
  })

  it('keeps the authors of lines that a restore brings back, and of files that a fork has copied', async () => {
    await say('first', write('one\ntwo\n'))
    await say('second', write('three\n'))
    const { items } = await server.client.checkpoints(id, {})
    const before = items.find(({ label }) => label.includes('second'))
    await server.client.restore(id, { checkpoint_id: before?.checkpoint_id ?? '' })
    const authors = ['one — own: first (write_to_file)', 'two — own: first (write_to_file)']
    expect(await blamed()).toEqual(authors)
    const fork = await server.client.fork(id, { files: 'copy' })
    await ask(server, fork.id, ['in the fork', replace('two\n', 'two\nand more\n')].join('\n'))
    expect(await blamed('a.txt', fork.id)).toEqual([
      ...authors,
      'and more — own: in the fork (replace_in_file)',
    ])
    expect(await blamed()).toEqual(authors)
  })

  it('separates what a person saves right before and after a command from what the command does', async () => {
    await say('first', write('one\n'))
    writeFileSync(at('a.txt'), 'one\nbefore\n')
    await say('second', command('echo by it >> a.txt'))
    writeFileSync(at('a.txt'), `${readFileSync(at('a.txt'), 'utf8')}after\n`)
    expect(await blamed()).toEqual([
      'one — own: first (write_to_file)',
      'before — outside',
      'by it — own: second (run_command)',
      'after — outside',
    ])
  })

  it('agrees with a replay of every edit on random histories', { timeout: 600_000 }, async () => {
    const step = fc.record({
      by: fc.constantFrom('tool', 'command', 'person', 'other'),
      // Where lines are removed, how many, and how many new ones are put there.
      place: fc.nat(20),
      removed: fc.nat(3),
      added: fc.nat(3),
    })
    let number = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
        const path = `file-${number++}.txt`
        const other = (await server.client.createConversation()).id
        let expected: { line: string; who: string }[] = []
        for (const { by, place, removed, added } of steps) {
          const name = `step ${number++}`
          const from = Math.min(place, expected.length)
          const isOutside = by === 'person'
          const tool = by === 'command' ? 'run_command' : 'write_to_file'
          const who = isOutside ? 'outside' : `own: ${name} (${tool})`
          const lines = Array.from({ length: added }, (_, n) => ({ line: `line ${name} ${n}`, who }))
          expected = expected.toSpliced(from, removed, ...lines)
          const content = expected.map(({ line }) => `${line}\n`).join('')
          if (isOutside) writeFileSync(at(path), content)
          else {
            const call =
              by === 'command'
                ? command(`printf %s ${quoted(content)} > ${path}`)
                : `!write_to_file ${JSON.stringify({ path, content })}`
            await ask(server, by === 'other' ? other : id, `${name}\n${call}`)
          }
        }
        if (expected.length === 0) return
        expect(await blamed(path)).toEqual(expected.map(({ line, who }) => `${line} — ${who}`))
      }),
      { numRuns: rounds(8, 100) },
    )
  })

  const quoted = (text: string) => `'${text}'`

  it('survives a file with a million lines, and imported diffs that are none', async () => {
    writeFileSync(at('long.txt'), `first\n${'\n'.repeat(1_000_000)}last\n`.slice(0, 1_000_000))
    await say('look')
    writeFileSync(at('long.txt'), `changed\n${'\n'.repeat(1_000_000)}`.slice(0, 999_000))
    await say('look again')
    expect((await server.client.blame(id, 'long.txt')).lines.length).toBeGreaterThan(0)
    const time = '2026-01-01T00:00:00.000Z'
    const head = { agent: 'codex', session_id: 'x', folder: null, is_here: true, started_at: time }
    const diff = '--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n--- b\n+++ b\n@@ -1 +1 @@\n-x\n+y\n'
    const edit = { type: 'edit', at: time, call_id: null, path: 'odd.txt', change: 'modified', diff }
    const lines = [head, { type: 'message', at: time, text: 'x' }, edit].map(
      (one) => `${JSON.stringify(one)}\n`,
    )
    await server.client.importSession(new Blob([lines.join('')]).stream())
    writeFileSync(at('odd.txt'), 'z\n')
    expect(await blamed('odd.txt')).toEqual(['z — outside'])
  })

  it('is printed by waymark blame', async () => {
    await say('first', write('one\n\u001b[31mtwo\n'))
    const cli = new URL('../cli/waymark.ts', import.meta.url).pathname
    const env = { ...process.env, WAYMARK_URL: server.url, WAYMARK_TOKEN: server.token }
    const args = [cli, 'blame', 'a.txt', '-c', id, '--project', project]
    const { stdout: out } = await promisify(execFile)(process.execPath, args, { env, cwd: project })
    expect(out).toMatch(/^agent write_to_file “first.*” .* event \d+ {2}1 {2}one\n +2 {2}\ufffd\[31mtwo\n$/)
  })
})
