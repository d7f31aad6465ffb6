import {
  type AgentApp,
  type AgentContext,
  agent,
  type ContentBlock,
  methods,
  PROTOCOL_VERSION,
  RequestError,
  type SessionConfigOption,
  type SessionModeState,
} from '@agentclientprotocol/sdk'
import type { Client } from '../client/index.ts'
import type { Conversation } from '../protocol/api/conversations.ts'
import type { SendMessage } from '../protocol/api/runs.ts'
import type { Frame } from '../protocol/frames.ts'
import { VERSION } from '../protocol/version.ts'
import { runCommand, slashCommands } from './commands.ts'
import { createFrameUpdates } from './frame-updates.ts'

/** `fork` is not part of the stable protocol yet; other agents announce it here too. */
const sessionCapabilities = { list: {}, resume: {}, close: {}, fork: {} }

/**
 * Waymark as an agent for editors: a session is a conversation. Each session follows its conversation's stream, so an editor
 * also shows what other clients send; a prompt ends when its run's terminal frame arrives.
 */
export function createAcpAgent(deps: {
  /** The server for a folder. */
  clientFor(cwd: string): Promise<Client>
}): AgentApp {
  const sessions = new Map<string, Session>()

  function sessionOf(id: string): Session {
    const session = sessions.get(id)
    if (!session) throw RequestError.resourceNotFound(id)
    return session
  }

  /** Begins to follow a conversation; with `isReplayed`, the editor is sent the whole transcript first. */
  async function open(editor: AgentContext, cwd: string, conversation: Conversation, isReplayed: boolean) {
    const client = await deps.clientFor(cwd)
    sessions.get(conversation.id)?.close()
    const session = followConversation({ client, editor, id: conversation.id })
    sessions.set(conversation.id, session)
    await session.start(isReplayed)
    const about = await describe(client, conversation)
    // An editor knows a session only after the answer to this request.
    setTimeout(() => session.announce(), 0)
    return about
  }

  return agent({ name: 'waymark' })
    .onRequest(methods.agent.initialize, () => ({
      protocolVersion: PROTOCOL_VERSION,
      agentInfo: { name: 'waymark', title: 'Waymark', version: VERSION },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, embeddedContext: true },
        sessionCapabilities,
      },
    }))
    .onRequest(methods.agent.session.new, async ({ params, client: editor }) => {
      const client = await deps.clientFor(params.cwd)
      const conversation = await refusing(client.createConversation({}))
      return { sessionId: conversation.id, ...(await open(editor, params.cwd, conversation, false)) }
    })
    .onRequest(methods.agent.session.load, async ({ params, client: editor }) => {
      const client = await deps.clientFor(params.cwd)
      return await open(editor, params.cwd, await refusing(client.conversation(params.sessionId)), true)
    })
    .onRequest(methods.agent.session.resume, async ({ params, client: editor }) => {
      const client = await deps.clientFor(params.cwd)
      return await open(editor, params.cwd, await refusing(client.conversation(params.sessionId)), false)
    })
    .onRequest(
      'session/fork',
      (params: unknown) => params as { sessionId: string; cwd: string },
      async ({ params, client: editor }) => {
        const client = await deps.clientFor(params.cwd)
        const conversation = await refusing(client.fork(params.sessionId, {}))
        return { sessionId: conversation.id, ...(await open(editor, params.cwd, conversation, false)) }
      },
    )
    .onRequest(methods.agent.session.list, async ({ params }) => {
      const cwd = params.cwd ?? process.cwd()
      const client = await deps.clientFor(cwd)
      const cursor = params.cursor == null ? {} : { cursor: params.cursor }
      const { items, next_cursor } = await refusing(client.listConversations({ limit: 50, ...cursor }))
      return {
        sessions: items.map(({ id, title, updated_at }) => ({
          sessionId: id,
          cwd,
          title,
          updatedAt: updated_at,
        })),
        ...(next_cursor === null ? {} : { nextCursor: next_cursor }),
      }
    })
    .onRequest(methods.agent.session.close, ({ params }) => {
      sessions.get(params.sessionId)?.close()
      sessions.delete(params.sessionId)
      return {}
    })
    .onRequest(methods.agent.session.setMode, async ({ params }) => {
      const { client, id } = sessionOf(params.sessionId)
      const mode = modes.find((one) => one.id === params.modeId)
      if (!mode) throw RequestError.invalidParams(undefined, `unknown mode ${params.modeId}`)
      await refusing(client.changeConversation(id, { mode: mode.id }))
      return {}
    })
    .onRequest(methods.agent.session.setConfigOption, async ({ params }) => {
      const { client, id } = sessionOf(params.sessionId)
      const value = String(params.value)
      const wanted = value === DEFAULT ? null : value
      const change = params.configId === 'agent' ? { agent: wanted } : { model: wanted }
      const { configOptions } = await describe(client, await refusing(client.changeConversation(id, change)))
      return { configOptions }
    })
    .onNotification(
      methods.agent.session.cancel,
      async ({ params }) => await sessionOf(params.sessionId).cancel(),
    )
    .onRequest(
      methods.agent.session.prompt,
      async ({ params }) => await sessionOf(params.sessionId).prompt(params.prompt),
    )
}

interface Session {
  id: string
  client: Client
  start(isReplayed: boolean): Promise<void>
  announce(): void
  prompt(
    content: readonly ContentBlock[],
  ): Promise<{ stopReason: 'end_turn' | 'cancelled' | 'refusal' | 'max_tokens' }>
  cancel(): Promise<void>
  close(): void
}

function followConversation(deps: { client: Client; editor: AgentContext; id: string }): Session {
  const { client, editor, id } = deps
  const { updatesOf } = createFrameUpdates()
  const aborter = new AbortController()
  /** The runs of this editor's prompts: it already shows their messages. */
  const own = new Set<string>()
  const ends = new Map<string, (frame: Frame<'final' | 'error'>) => void>()
  let ended = new Map<string, Frame<'final' | 'error'>>()

  async function send(update: object): Promise<void> {
    await editor.notify(methods.client.session.update, { sessionId: id, update } as never)
  }

  async function show(frame: Frame, isLive: boolean): Promise<void> {
    if (frame.kind === 'message.user' && own.has(frame.stream_id ?? '')) return
    for (const update of updatesOf(frame)) await send(update)
    if (!isLive) return
    if (frame.kind === 'tool.approval' && frame.status === 'requested') void ask(frame).catch(() => {})
    if (frame.kind !== 'final' && frame.kind !== 'error') return
    const runId = frame.stream_id ?? ''
    ended = new Map([...ended, [runId, frame] as const].slice(-20))
    ends.get(runId)?.(frame)
  }

  /** Asks in the editor. If a person answers elsewhere first, that answer counts. */
  async function ask({ stream_id, tool_call_id, tool_name }: Frame<'tool.approval'>): Promise<void> {
    const runId = stream_id ?? ''
    const question = await client.question(id, runId, tool_call_id)
    const { outcome } = await editor.request(methods.client.session.requestPermission, {
      sessionId: id,
      toolCall: {
        toolCallId: tool_call_id,
        title: `Allow ${tool_name}?`,
        rawInput: written(question.arguments),
      },
      options: [
        { optionId: 'allow', name: 'Allow', kind: 'allow_once' },
        { optionId: 'always', name: 'Always allow this call', kind: 'allow_always' },
        { optionId: 'deny', name: 'Deny', kind: 'reject_once' },
      ],
    })
    const choice = outcome.outcome === 'selected' ? outcome.optionId : 'deny'
    await client.answerApproval(id, runId, {
      tool_call_id,
      approved: choice !== 'deny',
      ...(choice === 'deny' ? {} : { question_sha256: question.question_sha256 }),
      ...(choice === 'always' ? { always: { match: 'exact' as const, scope: 'workspace' as const } } : {}),
    })
  }

  async function follow(cursor: string | undefined): Promise<void> {
    const options = { signal: aborter.signal, ...(cursor === undefined ? {} : { cursor }) }
    for await (const items of client.stream(id, options)) {
      for (const item of items) if (item.type === 'frame') await show(item.frame as Frame, true)
    }
  }

  return {
    id,
    client,
    async start(isReplayed) {
      let cursor: string | undefined
      for await (const items of client.stream(id, { follow: false })) {
        for (const item of items) {
          if (item.type !== 'frame') continue
          if (isReplayed) await show(item.frame as Frame, false)
          cursor = item.cursor
        }
      }
      void follow(cursor).catch(() => {})
    },
    announce() {
      void send({ sessionUpdate: 'available_commands_update', availableCommands: slashCommands }).catch(
        () => {},
      )
    },
    async prompt(content) {
      const text = content.flatMap((block) => (block.type === 'text' ? block.text : [])).join('\n')
      const said = await refusing(runCommand(client, id, text))
      if (said !== null) {
        await send({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: said } })
        return { stopReason: 'end_turn' }
      }
      const { run_id } = await refusing(client.sendMessage(id, messageOf(content)))
      own.add(run_id)
      const end = await new Promise<Frame<'final' | 'error'>>((resolve, reject) => {
        const known = ended.get(run_id)
        if (known) return resolve(known)
        ends.set(run_id, resolve)
        aborter.signal.addEventListener('abort', () =>
          reject(RequestError.internalError(undefined, 'closed')),
        )
      })
      ends.delete(run_id)
      if (end.kind === 'error') throw RequestError.internalError({ code: end.error.code }, end.error.message)
      return { stopReason: stopReasons[end.final.status] }
    },
    async cancel() {
      await client.stop(id)
    },
    close: () => aborter.abort(),
  }
}

const stopReasons: Record<
  Frame<'final'>['final']['status'],
  'end_turn' | 'cancelled' | 'refusal' | 'max_tokens'
> = {
  completed: 'end_turn',
  failed: 'end_turn',
  incomplete: 'max_tokens',
  refused: 'refusal',
  cancelled: 'cancelled',
}

const modes = [
  { id: 'ask', name: 'Ask before commands' },
  { id: 'edit', name: 'Edit freely' },
  { id: 'read_only', name: 'Read only (plan)' },
] as const

const DEFAULT = 'default'

/** The modes, models and agents that a session can choose. */
async function describe(
  client: Client,
  { mode, model, agent: hosted }: Conversation,
): Promise<{ modes: SessionModeState; configOptions: SessionConfigOption[] }> {
  const [about, models, agents] = await Promise.all([client.about(), client.models(), client.agents()])
  const names = models.items.flatMap(({ name, models: all }) =>
    all.slice(0, 50).map((one) => (name === 'demo' ? one : `${name}/${one}`)),
  )
  const modelNames = [...new Set([...names, ...(model === null ? [] : [model])])]
  const agentNames = agents.items.filter(({ is_installed, name }) => is_installed || name === hosted)
  return {
    modes: { currentModeId: mode, availableModes: modes.map((one) => ({ ...one })) },
    configOptions: [
      {
        id: 'model',
        name: 'Model',
        category: 'model',
        type: 'select',
        currentValue: model ?? DEFAULT,
        options: [
          { value: DEFAULT, name: `Default: ${about.model.name}` },
          ...modelNames.map((one) => ({ value: one, name: one })),
        ],
      },
      {
        id: 'agent',
        name: 'Agent',
        type: 'select',
        currentValue: hosted ?? DEFAULT,
        options: [
          { value: DEFAULT, name: "Waymark's own" },
          ...agentNames.map(({ name, title }) => ({ value: name, name: title })),
        ],
      },
    ],
  }
}

/** Images and embedded texts become attachments. */
function messageOf(content: readonly ContentBlock[]): SendMessage {
  const texts: string[] = []
  const attachments: { name: string; content: string }[] = []
  for (const block of content) {
    if (block.type === 'text') texts.push(block.text)
    else if (block.type === 'image')
      attachments.push({
        name: `image ${attachments.length + 1}`,
        content: `data:${block.mimeType};base64,${block.data}`,
      })
    else if (block.type === 'resource_link') texts.push(`@${block.uri.replace(/^file:\/\//, '')}`)
    else if (block.type === 'resource' && 'text' in block.resource)
      attachments.push({ name: block.resource.uri.slice(0, 200), content: block.resource.text })
  }
  const text = texts.join('\n').trim()
  return {
    content: text === '' ? 'See the attachment.' : text,
    ...(attachments.length === 0 ? {} : { attachments }),
  }
}

function written(args: string): unknown {
  try {
    return JSON.parse(args)
  } catch {
    return { text: args }
  }
}

/** Shows the server's refusal instead of an internal error. */
async function refusing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw RequestError.internalError(undefined, (error as Error).message)
  }
}
