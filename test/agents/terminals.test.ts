import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type DemoModel, startDemoModel } from '../../src/demo-model/server.ts'
import { allFrames, ask, finalOf, ofKind, runsOf, toolsOf, transcriptOf } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'
import { installed, realAgents } from './real-agents.ts'

const waymark = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
const SECRET = 'sk-credential-of-the-agent'
const sha = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex')

/** The model server as the gateway sees it: passes everything on to the demo model and keeps digests of both directions. */
interface Witness {
  url: string
  requests: Set<string>
  answers: Set<string>
  close(): void
}

async function startWitness(model: string): Promise<Witness> {
  const requests = new Set<string>()
  const answers = new Set<string>()
  const server: Server = createServer((received, response) => {
    const bodies: Buffer[] = []
    const onward = request(new URL(received.url ?? '', model), {
      method: received.method,
      headers: received.headers,
    })
    received.on('data', (bytes: Buffer) => bodies.push(bytes))
    received.on('end', () => requests.add(sha(Buffer.concat(bodies))))
    received.pipe(onward)
    onward.on('response', (answer) => {
      const sent: Buffer[] = []
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.on('data', (bytes: Buffer) => sent.push(bytes))
      answer.on('end', () => answers.add(sha(Buffer.concat(sent))))
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { url, requests, answers, close }
}

const claude = join(installed, '@anthropic-ai/claude-agent-sdk-linux-x64/claude')

/** How each agent is run in a terminal, for one message without a person. */
const terminals: Record<
  string,
  { program: string; args: (text: string) => string[]; input?: (text: string) => string }
> = {
  codex: { program: join(installed, '.bin/codex'), args: (text) => ['exec', '--skip-git-repo-check', text] },
  claude: { program: claude, args: (text) => ['-p', text] },
  opencode: { program: join(installed, '.bin/opencode'), args: () => ['run'], input: (text) => text },
}

for (const agent of realAgents) {
  const terminal = terminals[agent.name]
  const isHere = agent.isInstalled && terminal !== undefined && existsSync(terminal.program)
  describe.runIf(isHere)(`the model requests of ${agent.name}`, { timeout: 180_000 }, () => {
    let folder: string
    let project: string
    let home: string
    let model: DemoModel
    let witness: Witness
    let server: TestServer
    let env: Record<string, string>

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), `waymark-terminal-${agent.name}-`))
      project = join(folder, 'project')
      mkdirSync(project)
      const homes = join(installed, '.homes')
      mkdirSync(homes, { recursive: true })
      home = mkdtempSync(join(homes, `${agent.name}-terminal-`))
      model = await startDemoModel()
      witness = await startWitness(model.url)
      const hosted = agent.prepare(home, witness.url, false)
      env = { ...hosted?.env, OPENAI_API_KEY: SECRET, ANTHROPIC_API_KEY: SECRET }
      server = await startTestServer({
        project,
        agents: { hosted: { ...hosted, command: hosted?.command ?? '', env } },
      })
    })
    afterAll(async () => {
      await server.close()
      witness.close()
      await model.close()
      for (const one of [folder, home]) rmSync(one, { recursive: true, force: true })
    })

    async function run(text: string): Promise<string[]> {
      if (!terminal) return []
      const args = [
        '--disable-warning=ExperimentalWarning',
        waymark,
        'run',
        '--url',
        server.url,
        '--',
        terminal.program,
      ]
      const child = spawn(process.execPath, [...args, ...terminal.args(text)], {
        cwd: project,
        stdio: ['pipe', 'ignore', 'pipe'],
        // As a shell does: opencode works in the folder that PWD names.
        env: { ...process.env, PWD: project, ...env, WAYMARK_TOKEN: server.token },
      })
      child.stdin.end(terminal.input?.(text) ?? '')
      let printed = ''
      child.stderr.on('data', (bytes: Buffer) => (printed += bytes.toString()))
      const [code] = (await once(child, 'close')) as [number]
      expect(code, printed).toBe(0)
      return [...printed.matchAll(/conv_[0-9a-z]{26}/g)].map(([id]) => id)
    }

    /** Every record is what the model server got and sent, by SHA-256. */
    async function recordsAreExact(id: string): Promise<number> {
      const { items } = await server.client.responses(id, { limit: 100 })
      for (const { response_id } of items) {
        const answer = await server.call(`/conversations/${id}/responses/${response_id}`)
        const { request: sent, response: received } = (await answer.json()) as Record<string, unknown>
        expect(witness.requests).toContain(sha(asText(sent)))
        expect(witness.answers).toContain(sha(asText(received)))
      }
      return items.length
    }

    const asText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

    it('[G1] [G4] are recorded in its own terminal, with its transcript and its changes', async () => {
      const lines = [
        agent.shell('echo one > one.txt; echo printed'),
        agent.shell('echo two > two.txt'),
        '!say "all done"',
      ]
      const [id = ''] = await run(lines.join('\n'))
      await expect.poll(async () => (await server.client.queue(id)).active).toBeNull()
      const frames = await allFrames(server, id)
      expect(ofKind(frames, 'message.user')[0]?.content).toContain('echo one > one.txt')
      const [answered] = runsOf(transcriptOf(frames))
      expect(answered?.status).toBe('completed')
      const calls = toolsOf(answered)
      expect(calls).toHaveLength(2)
      expect(String(calls[0]?.output)).toContain('printed')
      const edits = ofKind(frames, 'file.edit').map(({ path, tool_call_id }) => [path, tool_call_id])
      expect(edits).toEqual([
        ['one.txt', calls[0]?.toolCallId],
        ['two.txt', calls[1]?.toolCallId],
      ])
      expect(ofKind(frames, 'final')[0]?.final.response_text).toContain('all done')
      expect(await recordsAreExact(id)).toBeGreaterThanOrEqual(3)
      const after = ofKind(frames, 'workspace.checkpoint').find(({ label }) => label.startsWith('After: '))
      await server.client.restore(id, { checkpoint_id: after?.checkpoint_id ?? '' })
      expect(existsSync(join(project, 'two.txt'))).toBe(false)
      const fork = await server.client.fork(id, {})
      expect(finalOf(await ask(server, fork.id, '!say "in the fork"')).response_text).toContain('in the fork')
    })

    it('[G1] are recorded when it is hosted', async () => {
      writeFileSync(join(project, 'here.txt'), 'here')
      const { id } = await server.client.createConversation({ agent: 'hosted' })
      const frames = await ask(server, id, `${agent.shell('echo three > three.txt')}\n!say "hosted answer"`)
      expect(finalOf(frames).response_text).toContain('hosted answer')
      expect(await recordsAreExact(id)).toBeGreaterThanOrEqual(2)
    })
  })
}
