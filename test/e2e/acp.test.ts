import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type AnyMessage,
  type ClientContext,
  client as editorApp,
  methods,
  PROTOCOL_VERSION,
  type SessionUpdate,
} from '@agentclientprotocol/sdk'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createAcpAgent } from '../../src/acp/acp-agent.ts'
import { testAgent } from '../support/hosted-agents.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

/** Checks each message of the agent against the schema that the SDK ships for its method. */
function createSchemas() {
  const file = createRequire(import.meta.url).resolve('@agentclientprotocol/sdk')
  const schema = JSON.parse(readFileSync(join(file, '../../../../schema/v1/schema.json'), 'utf8')) as {
    $defs: Record<string, { 'x-method'?: string }>
  }
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
  ajv.addSchema(schema, 'acp')
  const checks = new Map<string, ValidateFunction>()
  for (const [name, definition] of Object.entries(schema.$defs)) {
    const kind = /(Request|Response|Notification)$/.exec(name)?.[1]
    if (!definition['x-method'] || !kind) continue
    const check = ajv.getSchema(`acp#/$defs/${name}`)
    if (check) checks.set(`${definition['x-method']} ${kind}`, check)
  }
  const asked = new Map<unknown, string>()
  let count = 0
  function assertValid(key: string, value: unknown): void {
    const check = checks.get(key)
    // Forking is not part of the stable schema.
    if (!check) return expect(key).toMatch(/^session\/fork /)
    count++
    expect(check(value), `${key} ${JSON.stringify(value)}: ${JSON.stringify(check.errors)}`).toBe(true)
  }
  return {
    count: () => count,
    fromEditor(message: AnyMessage) {
      if ('method' in message && 'id' in message) asked.set(message.id, message.method)
    },
    fromAgent(message: AnyMessage) {
      if ('method' in message) {
        assertValid(`${message.method} ${'id' in message ? 'Request' : 'Notification'}`, message.params)
      } else if ('result' in message) assertValid(`${asked.get(message.id)} Response`, message.result ?? {})
    },
  }
}

function piped(onMessage: (message: AnyMessage) => void) {
  return new TransformStream<AnyMessage, AnyMessage>({
    transform(message, controller) {
      const copy = JSON.parse(JSON.stringify(message)) as AnyMessage
      onMessage(copy)
      controller.enqueue(copy)
    },
  })
}

describe('waymark acp', () => {
  let server: TestServer
  let sessions: string
  const schemas = createSchemas()
  const updates: { sessionId: string; update: SessionUpdate }[] = []
  let answer = 'allow'

  beforeAll(async () => {
    sessions = await mkdtemp(join(tmpdir(), 'waymark-sessions-'))
    server = await startTestServer(testAgent(sessions))
  })
  afterAll(async () => {
    await server.close()
    await rm(sessions, { recursive: true, force: true })
    expect(schemas.count()).toBeGreaterThan(100)
  })

  /** An editor of its own, connected to an agent of its own. */
  async function openEditor(): Promise<ClientContext> {
    const [toAgent, toEditor] = [piped(schemas.fromEditor), piped(schemas.fromAgent)]
    createAcpAgent({ clientFor: async () => server.client }).connect({
      readable: toAgent.readable,
      writable: toEditor.writable,
    })
    const editor = editorApp({ name: 'editor' })
      .onNotification(methods.client.session.update, ({ params }) => void updates.push(params))
      .onRequest(methods.client.session.requestPermission, () => ({
        outcome: { outcome: 'selected', optionId: answer },
      }))
      .connect({ readable: toEditor.readable, writable: toAgent.writable })
    const about = await editor.agent.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: {},
    })
    // Hosts look for it here, so that Waymark hosted by Waymark forks its own session.
    expect(about.agentCapabilities?.sessionCapabilities).toMatchObject({ fork: {} })
    expect(about.agentCapabilities?.loadSession).toBe(true)
    return editor.agent
  }

  const cwd = () => server.config.project
  const newSession = async (editor: ClientContext) =>
    await editor.request(methods.agent.session.new, { cwd: cwd(), mcpServers: [] })
  const prompt = (editor: ClientContext, sessionId: string, text: string) =>
    editor.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: 'text', text }] })
  const shown = (sessionId: string, type: string) =>
    updates
      .filter((one) => one.sessionId === sessionId && one.update.sessionUpdate === type)
      .map(({ update }) =>
        'content' in update && !Array.isArray(update.content)
          ? (update.content as { text?: string }).text
          : '',
      )
      .join('')

  it('answers a prompt with text, thoughts and tool calls', async () => {
    const editor = await openEditor()
    const { sessionId, modes, configOptions } = await newSession(editor)
    expect(modes?.currentModeId).toBe('ask')
    expect(configOptions?.map(({ id }) => id)).toEqual(['model', 'agent'])
    const { stopReason } = await prompt(
      editor,
      sessionId,
      '!think 3\n!write_to_file {"path":"a.txt","content":"one\\n"}\n!say "all done"',
    )
    expect(stopReason).toBe('end_turn')
    expect(shown(sessionId, 'agent_message_chunk')).toContain('all done')
    expect(shown(sessionId, 'agent_thought_chunk')).toContain('the ledger keeps')
    expect(shown(sessionId, 'user_message_chunk')).toBe('')
    const calls = updates.filter(({ update }) => update.sessionUpdate === 'tool_call')
    expect(calls.at(-1)?.update).toMatchObject({ title: 'write_to_file: a.txt', kind: 'edit' })
    expect(JSON.stringify(updates)).toContain('+one')
  })

  it.each([
    ['allow', true],
    ['deny', false],
  ])('asks the editor for a permission: %s', async (choice, isRun) => {
    answer = choice
    const editor = await openEditor()
    const { sessionId } = await newSession(editor)
    await prompt(editor, sessionId, `!run_command {"command":"echo ran-${choice}"}`)
    const outputs = updates.filter(
      (one) => one.sessionId === sessionId && one.update.sessionUpdate === 'tool_call_update',
    )
    expect(JSON.stringify(outputs).includes(`ran-${choice}\\n`)).toBe(isRun)
  })

  it('[L4] replays the whole conversation on load, and shows what another client sends', async () => {
    const editor = await openEditor()
    const { sessionId } = await newSession(editor)
    await prompt(editor, sessionId, '!say "the first answer"')
    const other = await openEditor()
    updates.length = 0
    await other.request(methods.agent.session.load, { sessionId, cwd: cwd(), mcpServers: [] })
    expect(shown(sessionId, 'user_message_chunk')).toBe('!say "the first answer"')
    expect(shown(sessionId, 'agent_message_chunk')).toContain('the first answer')
    updates.length = 0
    await prompt(editor, sessionId, '!say "the second answer"')
    await expect.poll(() => shown(sessionId, 'user_message_chunk')).toBe('!say "the second answer"')
    const { sessions: listed } = await other.request(methods.agent.session.list, { cwd: cwd() })
    expect(listed.map((one) => one.sessionId)).toContain(sessionId)
  })

  it('stops, changes modes, models and agents, forks and restores', async () => {
    const editor = await openEditor()
    const { sessionId } = await newSession(editor)
    const answering = prompt(editor, sessionId, '!wait 50\n!say 400')
    await expect.poll(() => shown(sessionId, 'agent_message_chunk')).not.toBe('')
    await editor.notify(methods.agent.session.cancel, { sessionId })
    expect((await answering).stopReason).toBe('cancelled')

    await editor.request(methods.agent.session.setMode, { sessionId, modeId: 'read_only' })
    expect((await server.client.conversation(sessionId)).mode).toBe('read_only')
    const value = 'test'
    await editor.request(methods.agent.session.setConfigOption, { sessionId, configId: 'agent', value })
    expect((await server.client.conversation(sessionId)).agent).toBe('test')
    // The editor talks to a hosted agent through Waymark.
    await prompt(editor, sessionId, '!say from the hosted agent')
    expect(shown(sessionId, 'agent_message_chunk')).toContain('from the hosted agent')

    const fork = await editor.request<{ sessionId: string }>('session/fork', { sessionId, cwd: cwd() })
    expect((await server.client.conversation(fork.sessionId)).parent?.conversation_id).toBe(sessionId)

    updates.length = 0
    await prompt(editor, sessionId, '/checkpoints')
    const [, checkpoint = ''] = /`([0-9a-f]+)`/.exec(shown(sessionId, 'agent_message_chunk')) ?? []
    await prompt(editor, sessionId, `/restore ${checkpoint}`)
    expect(shown(sessionId, 'agent_message_chunk')).toContain('Restored ')
  })

  it('reports errors of the model and of unknown sessions', async () => {
    const editor = await openEditor()
    const { sessionId } = await newSession(editor)
    await expect(prompt(editor, sessionId, '!fail 400')).rejects.toThrow()
    await expect(prompt(editor, 'conv_unknown', 'hello')).rejects.toThrow()
  })
})
