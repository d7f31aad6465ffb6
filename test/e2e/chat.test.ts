import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestServer, type TestServer } from '../support/server.ts'
import { commandEnv } from '../support/state.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))

describe('chat commands in a terminal', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())

  /** Runs a command in the project and interrupts it once its output matches `signalWhen`. */
  async function run(args: string[], options: { input?: string; signalWhen?: RegExp } = {}) {
    const child = start(args)
    let stdout = ''
    let stderr = ''
    let isSignalled = false
    child.stdout?.on('data', (chunk: Buffer) => {
      stdout += chunk.toString()
      if (isSignalled || !options.signalWhen?.test(stdout)) return
      isSignalled = true
      child.kill('SIGINT')
    })
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
    })
    child.stdin?.end(options.input ?? '')
    const [code] = (await once(child, 'close')) as [number]
    return { code, stdout: stdout.replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, 'TIME'), stderr }
  }

  function start(args: string[]): ChildProcess {
    const { project } = server.config
    return spawn(process.execPath, [cli, ...args, '--project', project], { env: commandEnv(project) })
  }

  it('chat answers each line and shows tools and diffs', async () => {
    const input =
      'I am devansh\nwhat is \\\nmy name\n!write_to_file {"path":"a.txt","content":"hi\\n"}\n!read_file {"path":"a.txt"}\n'
    const { code, stdout } = await run(['chat', '--new', '--title', 'Talk'], { input })
    expect(code).toBe(0)
    expect(stdout).toContain('agent  TIME\nHello devansh.')
    expect(stdout).toContain(
      [
        '▸ write_to_file {"path":"a.txt","content":"hi\\n"}',
        '  added a.txt +1 −0',
        '    @@ -0,0 +1,1 @@',
        '    +hi',
        'Done: 1 call. The last one returned: Created a.txt (3 bytes).',
      ].join('\n'),
    )
    expect(stdout).toContain('▸ read_file {"path":"a.txt"}\n    hi\nDone: 1 call.')
    const { items } = await server.client.listConversations()
    expect(items[0]?.title).toBe('Talk')
  })

  it('send prints only the answer, in the most recent conversation or a new one', async () => {
    const { stdout } = await run(['send', 'what', 'is', 'my', 'name'])
    expect(stdout).toBe('agent  TIME\nYour name is devansh.\n\n')
    const piped = await run(['send', '--new'], { input: 'what is my name' })
    expect(piped.stdout).toMatch(/I do not know your name/)
    expect((await run(['send', '--no-wait', 'hello'])).stdout).toMatch(
      /^run_\w+ in conv_\w+ \(runs next\)\n$/,
    )
    expect(await run(['send', '!fail 400'])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('demo_failure'),
    })
    expect(await run(['send'])).toMatchObject({ code: 1, stderr: 'waymark: the message is empty\n' })
  })

  it('[C9] log names attachments and prints them byte for byte', async () => {
    const { id } = await server.client.createConversation({ title: 'Along' })
    const spec = join(server.config.project, 'spec.md')
    const content = 'round\u001b[31m baskets, no newline'
    await writeFile(spec, 'the first one')
    await run(['send', '-c', id, '--attach', spec, 'look'])
    await writeFile(spec, content)
    await run(['send', '-c', id, '--attach', spec, 'look again'])
    expect((await run(['log', id])).stdout).toContain(
      `look again\n· with spec.md (${content.length} bytes)\n`,
    )
    expect((await run(['log', id, '--attachment', 'spec.md'])).stdout).toBe(content)
    expect(await run(['log', id, '--attachment', 'other.md'])).toMatchObject({
      code: 1,
      stderr: 'waymark: no message has an attachment named other.md\n',
    })
  })

  it('piped chat leaves the approvals of other runs to the people who started them', async () => {
    const { id } = await server.client.createConversation()
    const { run_id } = await server.client.sendMessage(id, { content: '!run_command {"command":"ls"}' })
    await expect.poll(async () => (await server.client.conversation(id)).is_asking).toBe(true)
    expect((await run(['queue', id])).stdout).toContain('waiting for your approval')
    expect((await run(['conversations'])).stdout).toContain('(waiting for approval)')
    const piped = start(['chat', id])
    piped.stdin?.write('and then?\n')
    await expect.poll(async () => (await server.client.queue(id)).items.length).toBe(1)
    expect((await server.client.conversation(id)).is_asking).toBe(true)
    expect((await server.client.queue(id)).active?.run_id).toBe(run_id)
    await server.client.stop(id)
    piped.stdin?.end()
    const [code] = await once(piped, 'close')
    expect(code).toBe(0)
  })

  it('prints results as JSON', async () => {
    const sent = JSON.parse((await run(['send', '--new', '--json', 'I am Ada'])).stdout)
    expect(sent).toMatchObject({ status: 'completed', response_text: expect.stringContaining('Hello Ada') })
    const queued = JSON.parse((await run(['send', '--json', '--no-wait', 'hello'])).stdout)
    expect(queued).toMatchObject({ conversation_id: sent.conversation_id, queue_position: 0 })
    expect(JSON.parse((await run(['stop', sent.conversation_id, '--json'])).stdout)).toHaveProperty('run_id')
  })

  it('sets the mode of a conversation, and says when no server lists the model', async () => {
    const { stdout } = await run(['send', '--new', '--mode', 'read_only', '--no-wait', 'hello'])
    const id = /conv_[0-9a-z]+/.exec(stdout)?.[0] ?? ''
    expect((await server.client.conversation(id)).mode).toBe('read_only')
    const { stderr } = await run(['send', '-c', id, '--model', 'nosuch/x', 'hello'])
    expect(stderr).toContain('no server lists a model named nosuch/x')
    expect((await run(['send', '--mode', 'all', 'x'])).stderr).toContain(
      'Allowed choices are ask, edit, read_only',
    )
  })

  it('search finds messages, and share writes a file without secrets', async () => {
    const { id } = await server.client.createConversation({ title: 'Shared' })
    const key = `sk-proj-${'a1B2'.repeat(8)}`
    await run(['send', '-c', id, `my quince key is ${key}`])
    const found = await run(['search', 'QUINCE'])
    expect(found.stdout).toMatch(
      new RegExp(`^${id}  event \\d+  TIME  message  Shared\n  my quince key is sk-proj`),
    )
    expect((await run(['search', 'nothing like it'])).stdout).toBe('Nothing found.\n')
    const preview = await run(['share', id, '--preview'])
    expect(preview.stdout).toMatch(/^redacted  API key  sk-p…/)
    const file = join(server.config.project, 'shared.html')
    const written = await run(['share', id, '-o', file])
    expect(written.stdout).toContain(`${file}: `)
    const html = await readFile(file, 'utf8')
    expect(html).toContain('my quince key is \\u003credacted>')
    expect(html).not.toContain(key)
    expect((await run(['share', id, '-o', file])).stderr).toContain('already exists')
  })

  it('queue and stop report the state of the queue', async () => {
    const { id } = await server.client.createConversation()
    expect((await run(['queue', id])).stdout).toBe('The queue is empty.\n')
    expect((await run(['stop', id])).stdout).toBe('Nothing is running.\n')
    const first = await server.client.sendMessage(id, { content: '!wait 50\n!say 1000' })
    const second = await server.client.sendMessage(id, { content: 'and\nthen' })
    await expect.poll(async () => (await server.client.queue(id)).active?.run_id).toBe(first.run_id)
    const { stdout } = await run(['queue', id])
    expect(stdout).toMatch(
      new RegExp(`^running  ${first.run_id}  since .*\n      1  ${second.run_id}  and then\n$`),
    )
    expect((await run(['queue', id, '--remove', second.run_id])).stdout).toContain('Removed')
    expect((await run(['stop', id])).stdout).toBe(`Stopping ${first.run_id}.\n`)
    await expect.poll(async () => (await server.client.queue(id)).active).toBeNull()
  })

  it('Ctrl-C cancels the run that send is waiting for', async () => {
    const { code, stdout } = await run(['send', '--new', '!wait 50\n!say 1000'], { signalWhen: /ledger/ })
    expect(stdout).toContain('· cancelled')
    expect(code).toBe(1)
  })

  it('[W6] reset previews with --dry-run, then resets and prints how to undo it', async () => {
    const { id } = await server.client.createConversation({ title: 'Reset' })
    await run(['send', '-c', id, '!write_to_file {"path":"to-go.txt","content":"x"}'])
    const preview = await run(['reset', id, '--dry-run'])
    expect(preview.stdout).toBe('deleted   to-go.txt\n0 files would be restored, 1 deleted.\n')
    const { stdout } = await run(['reset', id])
    expect(stdout).toContain('0 files were restored, 1 deleted.')
    expect(stdout).toContain(`${id} is now in session_2.`)
    expect(stdout).toContain('To undo: waymark restore ')
  })
})

describe("a project's settings", () => {
  it('apply only after a person has trusted them, if they give the agent more power', async () => {
    const project = await mkdtemp(join(tmpdir(), 'waymark-trust-'))
    const home = await mkdtemp(join(tmpdir(), 'waymark-home-'))
    await writeFile(join(project, 'waymark.config.json'), '{"tools": {"run_command": "allow"}, "port": 0}')
    const serve = async (...args: string[]) => {
      const child = spawn(process.execPath, [cli, 'serve', '--project', project, ...args], {
        env: { PATH: process.env.PATH, HOME: home },
      })
      let text = ''
      const isUp = new Promise<void>((resolve) => {
        child.stdout.on('data', (chunk: Buffer) => {
          text += chunk.toString()
          if (text.includes('Ctrl-C')) resolve()
        })
      })
      child.stderr.on('data', (chunk: Buffer) => {
        text += chunk.toString()
      })
      await Promise.race([isUp, once(child, 'exit')])
      child.kill('SIGKILL')
      return text
    }
    expect(await serve()).toMatch(/waymark\.config\.json sets tools; review it.*--trust/s)
    expect(await serve('--trust')).toContain('Waymark serves')
    expect(await serve()).toContain('Waymark serves')
    await writeFile(
      join(project, 'waymark.config.json'),
      '{"tools": {"run_command": "allow"}, "mcpServers": {}, "port": 0}',
    )
    expect(await serve()).toMatch(/sets tools, mcpServers/)
    await writeFile(join(project, 'waymark.config.json'), '{"apiKey": "sk-x"}')
    expect(await serve()).toMatch(/must not contain apiKey; set OPENAI_API_KEY instead/)
    await writeFile(join(project, 'waymark.config.json'), '{"port": 0}')
    expect(await serve('--tools', 'run_command=maybe')).toMatch(
      /--tools must be a list of tools with allow, ask or deny/,
    )
    await writeFile(join(project, 'waymark.config.json'), '{"port": 0}')
    expect(await serve()).toContain('Waymark serves')
    await rm(project, { recursive: true })
    await rm(home, { recursive: true })
  })
})
