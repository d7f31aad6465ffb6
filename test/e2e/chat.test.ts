import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
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
    return { code, stdout: stdout.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME'), stderr }
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
