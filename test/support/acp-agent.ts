// A small ACP agent for tests: a real process, made with the SDK, that does what the lines of a prompt say. It keeps its
// sessions in files, like real agents, so that another process can resume or fork them.
import { execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { type AgentContext, agent, methods, ndJsonStream, PROTOCOL_VERSION } from '@agentclientprotocol/sdk'

const folder = process.env.ACP_SESSIONS ?? '/tmp/acp-sessions'
/** Features to leave out, such as `resume,fork`. */
const without = new Set((process.env.ACP_WITHOUT ?? '').split(','))
mkdirSync(folder, { recursive: true })

interface Session {
  cwd: string
  /** Everything that was said to this session. */
  memory: string[]
}

const fileOf = (id: string) => join(folder, `${id}.json`)
const read = (id: string): Session => {
  if (!existsSync(fileOf(id))) throw new Error(`no session ${id}`)
  return JSON.parse(readFileSync(fileOf(id), 'utf8')) as Session
}
const write = (id: string, session: Session) => writeFileSync(fileOf(id), JSON.stringify(session))
const cancels = new Map<string, AbortController>()
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

function make(session: Session): { sessionId: string } {
  const sessionId = randomUUID()
  write(sessionId, session)
  return { sessionId }
}

async function prompt(
  client: AgentContext,
  sessionId: string,
  text: string,
  signal: AbortSignal,
): Promise<void> {
  const session = read(sessionId)
  session.memory.push(text)
  write(sessionId, session)
  const update = (fields: Record<string, unknown>) =>
    client.notify(methods.client.session.update, { sessionId, update: fields } as never)
  const say = (words: string) =>
    update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: words } })
  const call = async (kind: string, title: string, rawInput: unknown) => {
    const toolCallId = randomUUID()
    await update({ sessionUpdate: 'tool_call', toolCallId, title, kind, status: 'in_progress', rawInput })
    return toolCallId
  }
  const end = (toolCallId: string, status: string, content: unknown[]) =>
    update({ sessionUpdate: 'tool_call_update', toolCallId, status, content })
  const textContent = (words: string) => [{ type: 'content', content: { type: 'text', text: words } }]

  async function shell(command: string, toolCallId: string): Promise<void> {
    const child = spawn('/bin/sh', ['-c', command], {
      cwd: session.cwd,
      signal,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (bytes) => {
        output += String(bytes)
        void update({ sessionUpdate: 'tool_call_update', toolCallId, content: textContent(output) })
      })
    }
    const code = await new Promise<number | null>((resolve) => {
      child.once('error', () => resolve(null))
      child.once('close', resolve)
    })
    await end(toolCallId, code === 0 ? 'completed' : 'failed', textContent(output))
  }

  /** Runs each command as soon as its model asks for it, and reports the one before only a moment later. */
  async function runAhead(commands: readonly string[]): Promise<void> {
    const input: unknown[] = [{ role: 'user', content: commands.map(() => '!run {}').join('\n') }]
    const reports: Promise<void>[] = []
    for (const command of commands) {
      const toolCallId = await call('execute', command, { command })
      execFileSync('/bin/sh', ['-c', command], { cwd: session.cwd })
      reports.push(sleep(100).then(() => end(toolCallId, 'completed', textContent('done'))))
      input.push({ type: 'function_call_output', call_id: toolCallId, output: 'done' })
      const response = await fetch(`${process.env.OPENAI_BASE_URL}/responses`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Authorization: 'Bearer x' },
        body: JSON.stringify({
          model: 'demo',
          input,
          stream: true,
          tools: [{ type: 'function', name: 'run' }],
        }),
      })
      await response.text()
    }
    await Promise.all(reports)
  }

  // Asked to continue, it works on the last message of the transcript again.
  const after = text.slice(text.lastIndexOf('</transcript>') + 1)
  const said = text.slice(0, text.lastIndexOf('</transcript>')).split('Person: ').at(-1) ?? ''
  const last = after.trim().endsWith('Continue.') ? said : after
  for (const line of last.split('\n').filter((one) => one.startsWith('!'))) {
    if (signal.aborted) return
    const [, word = '', rest = ''] = /^!(\S+) ?(.*)$/.exec(line) ?? []
    switch (word) {
      case 'say':
        for (const piece of rest.match(/\S+\s*/g) ?? []) await say(piece)
        break
      case 'think':
        await update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: rest } })
        break
      case 'plan':
        await update({
          sessionUpdate: 'plan',
          entries: [{ content: rest, priority: 'high', status: 'pending' }],
        })
        break
      case 'commands':
        await update({
          sessionUpdate: 'available_commands_update',
          availableCommands: [{ name: rest, description: 'x' }],
        })
        break
      case 'mode':
        await update({ sessionUpdate: 'current_mode_update', currentModeId: rest })
        break
      case 'title':
        await update({ sessionUpdate: 'session_info_update', title: rest })
        break
      case 'update':
        await update(JSON.parse(rest) as Record<string, unknown>)
        break
      case 'shell':
        await shell(rest, await call('execute', rest, { command: rest }))
        break
      case 'ask-option':
      case 'ask': {
        const toolCallId = randomUUID()
        const toolCall = {
          toolCallId,
          title: rest,
          kind: 'execute',
          status: 'pending',
          rawInput: { command: rest },
        }
        await update({ sessionUpdate: 'tool_call', ...toolCall })
        const options = [
          { optionId: 'yes', name: 'Yes', kind: 'allow_once' },
          { optionId: 'always', name: 'Always', kind: 'allow_always' },
          { optionId: 'no', name: 'No', kind: 'reject_once' },
        ]
        const { outcome } = await client.request(methods.client.session.requestPermission, {
          sessionId,
          toolCall,
          options,
        } as never)
        if (word === 'ask-option' && outcome.outcome === 'selected') await say(`option ${outcome.optionId}`)
        if (outcome.outcome === 'selected' && outcome.optionId !== 'no') await shell(rest, toolCallId)
        else await end(toolCallId, 'failed', textContent('not allowed'))
        break
      }
      case 'edit': {
        const [path = '', ...words] = rest.split(' ')
        const file = join(session.cwd, path)
        const toolCallId = await call('edit', `Edit ${path}`, { path })
        const oldText = existsSync(file) ? readFileSync(file, 'utf8') : null
        writeFileSync(file, words.join(' '))
        await end(toolCallId, 'completed', [{ type: 'diff', path: file, oldText, newText: words.join(' ') }])
        break
      }
      case 'fs': {
        const [path = '', ...words] = rest.split(' ')
        const file = join(session.cwd, path)
        await client.request(methods.client.fs.writeTextFile, {
          sessionId,
          path: file,
          content: words.join(' '),
        })
        const { content } = await client.request(methods.client.fs.readTextFile, { sessionId, path: file })
        await say(`wrote ${content}`)
        break
      }
      case 'append': {
        const [path = '', ...words] = rest.split(' ')
        const file = join(session.cwd, path)
        const { content } = await client.request(methods.client.fs.readTextFile, { sessionId, path: file })
        const lines = await client.request(methods.client.fs.readTextFile, {
          sessionId,
          path: file,
          line: 2,
          limit: 2,
        })
        await say(JSON.stringify(lines.content))
        await client.request(methods.client.fs.writeTextFile, {
          sessionId,
          path: file,
          content: content + words.join(' '),
        })
        break
      }
      case 'write-and-leave':
        for (let index = 0; index < 20; index++) {
          const file = join(session.cwd, `left-${index}.txt`)
          void client
            .request(methods.client.fs.writeTextFile, { sessionId, path: file, content: rest })
            .catch(() => {})
        }
        break
      case 'terminal-and-leave':
        void client.createTerminal({ sessionId, command: rest }).catch(() => {})
        break
      case 'ask-and-leave':
        void client
          .request(methods.client.session.requestPermission, {
            sessionId,
            toolCall: { toolCallId: 'left', title: rest, kind: 'execute' },
            options: [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }],
          })
          .catch(() => {})
        break
      case 'values': {
        const fields = `"sessionUpdate":"tool_call","toolCallId":"v","rawOutput":[${'{},'.repeat(Number(rest))}0]`
        const params = `{"sessionId":"${sessionId}","update":{${fields}}}`
        // The SDK's stream loses a message that it writes while the pipe is full.
        await new Promise((resolve) =>
          process.stdout.write(`{"jsonrpc":"2.0","method":"session/update","params":${params}}\n`, resolve),
        )
        break
      }
      case 'answer-nothing':
        process.stdout.write(`{"jsonrpc":"2.0","id":"\\u001b[31mred","result":{}}\n`)
        break
      case 'read':
        await client
          .request(methods.client.fs.readTextFile, { sessionId, path: rest })
          .then(({ content }) => say(`read ${content}`))
          .catch((error: Error) => say(`refused ${JSON.stringify(error)}`))
        break
      case 'terminal': {
        const terminal = await client.createTerminal({ sessionId, command: '/bin/sh', args: ['-c', rest] })
        const { exitCode } = await terminal.waitForExit()
        const { output } = await terminal.currentOutput()
        await terminal.release()
        await say(`exit ${exitCode}: ${output}`)
        break
      }
      case 'model': {
        const headers = { 'Content-Type': 'application/json', Authorization: 'Bearer x' }
        const url = `${process.env.OPENAI_BASE_URL}/responses`
        const response = await fetch(url, { method: 'POST', headers, body: rest })
        await say(
          JSON.stringify([...(await response.text()).matchAll(/"text":"([^"]+)"/g)].at(-1)?.[1] ?? ''),
        )
        break
      }
      case 'ahead':
        await runAhead(JSON.parse(rest) as string[])
        break
      case 'recall':
        await say(`memory: ${JSON.stringify(session.memory)}`)
        break
      case 'wait':
        await Promise.race([
          sleep(Number(rest)),
          new Promise((resolve) => signal.addEventListener('abort', resolve)),
        ])
        break
      case 'flood':
        for (let index = 0; index < Number(rest); index++) await say(`${index} `)
        break
      case 'stamps':
        for (let index = 0; index < Number(rest); index++) {
          await say(`@${performance.timeOrigin + performance.now()}@ `)
          await sleep(10)
        }
        break
      case 'stop-itself':
        // A stopped process doesn't notice that its input has ended.
        process.kill(process.pid, 'SIGSTOP')
        break
      case 'hang':
        await new Promise(() => setInterval(() => {}, 1000))
        break
      case 'rubbish':
        process.stdout.write(
          'this is no JSON\n{"jsonrpc":"2.0","method":"_private/thing","params":{}}\n[]\nnull\n',
        )
        break
      case 'long-line':
        process.stdout.write(`{"jsonrpc":"2.0","x":"${'x'.repeat(Number(rest))}"}\n`)
        break
      case 'half':
        process.stdout.write('{"jsonrpc":"2.0","method":"session/upd', () => process.exit(3))
        await new Promise(() => {})
        break
      case 'exit':
        process.stderr.write('something broke\n')
        process.exit(Number(rest || 1))
        break
      case 'fail':
        throw new Error(rest)
      default:
        await say(`unknown line ${word}`)
    }
  }
}

agent({ name: 'test-agent' })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentCapabilities: {
      loadSession: !without.has('load'),
      promptCapabilities: { image: true },
      sessionCapabilities: {
        ...(without.has('resume') ? {} : { resume: {} }),
        ...(without.has('fork') ? {} : { fork: {} }),
      },
    },
  }))
  .onRequest(methods.agent.session.new, ({ params }) => make({ cwd: params.cwd, memory: [] }))
  .onRequest(methods.agent.session.load, ({ params }) => {
    const session = read(params.sessionId)
    write(params.sessionId, { ...session, cwd: params.cwd })
    return {}
  })
  .onRequest(methods.agent.session.resume, ({ params }) => {
    const session = read(params.sessionId)
    write(params.sessionId, { ...session, cwd: params.cwd })
    return {}
  })
  .onRequest(
    'session/fork',
    (params: unknown) => params as { sessionId: string; cwd: string },
    ({ params }) => make({ ...read(params.sessionId), cwd: params.cwd }),
  )
  .onNotification(methods.agent.session.cancel, ({ params }) => cancels.get(params.sessionId)?.abort())
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId } = params
    const text = params.prompt
      .map((block) => (block.type === 'text' ? block.text : `[${block.type}]`))
      .join('\n')
    const aborter = new AbortController()
    cancels.set(sessionId, aborter)
    await prompt(client, sessionId, text, aborter.signal)
    return {
      stopReason: aborter.signal.aborted ? 'cancelled' : 'end_turn',
      usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15 },
    } as never
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin) as never))
