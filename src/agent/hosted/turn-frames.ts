import type { ContentBlock, SessionUpdate, ToolCall, ToolCallUpdate } from '@agentclientprotocol/sdk'
import { ModelFailure, type Turn } from '../../core/agent.ts'
import { cutText } from '../../core/limits.ts'
import type { FrameDraft } from '../../protocol/frames.ts'
import { shownArguments, shownOutput } from '../provider/stream-items.ts'
import {
  type AgentCall,
  argumentsFrame,
  mayChangeFiles,
  outputOf,
  statusFrame,
  updateCall,
} from './agent-call.ts'

/** An answer's limits, as for model servers (T7). */
const MAX_TEXT = 8 * 1024 * 1024
const MAX_ITEMS = 2000
const MAX_COMMANDS = 200
const MAX_CALL_ID = 200
const MAX_NOTE = 100_000

/** Turns the updates of one answer into frames. */
export interface TurnFrames {
  /** A promise holds up the next update until it settles. */
  update(update: unknown): Promise<void> | undefined
  /** The card of a call; makes one if the agent asks for a permission before it announces the call. */
  callOf(update: ToolCallUpdate): AgentCall
  /** A place for the card of a call that Waymark runs for the agent. */
  nextPlace(): { response_id: string; output_index: number; item_id: string }
  /** Changing calls that have begun and not ended. */
  openCalls(): AgentCall[]
  /** Resolves when these calls, by the agent's ids, have ended and what they changed is stored. Calls that are not known don't count. */
  saved(callIds: readonly string[]): Promise<unknown>
  /** Closes the text or thought that is open. */
  closeItem(): void
  usage(): { used: number; size: number } | null
}

export interface TurnFramesDependencies {
  turn: Pick<Turn, 'writer' | 'hold'>
  agent: string
  /** The conversation has no title yet. */
  isUntitled: boolean
  now(): number
  terminalOutput(id: string): string
  /** Called when a call that may have changed files has ended; returns the frames that record it. */
  afterCall(call: AgentCall): Promise<FrameDraft[]>
  /** Keeps a whole output that a frame can't show. */
  keep(text: string): Promise<string>
}

type Handlers = {
  [K in SessionUpdate['sessionUpdate']]: (
    update: Extract<SessionUpdate, { sessionUpdate: K }>,
  ) => Promise<void> | undefined | void
}

interface OpenItem {
  type: 'message' | 'reasoning'
  output_index: number
  item_id: string
  response_id: string
  messageId: string | null
  text: string
}

export function createTurnFrames(deps: TurnFramesDependencies): TurnFrames {
  const { turn, agent, now } = deps
  const { writer } = turn
  const calls = new Map<string, AgentCall>()
  let open: OpenItem | null = null
  let items = 0
  let step = 1
  let characters = 0
  let isUntitled = deps.isUntitled
  let used: { used: number; size: number } | null = null

  /** Text after a call is a new step: the last one is the answer. An epoch of its own keeps a resumed run apart. */
  const responseId = () => `step_${turn.hold.epoch}_${step}`

  function nextPlace() {
    if (++items > MAX_ITEMS) throw tooLarge(agent)
    return { response_id: responseId(), output_index: items - 1, item_id: `item_${turn.hold.epoch}_${items}` }
  }

  function say(type: OpenItem['type'], text: string, messageId: string | null): void {
    if (typeof text !== 'string') throw new TypeError('a text is not a string')
    if (text === '') return
    characters += text.length
    if (characters > MAX_TEXT) throw tooLarge(agent)
    if (
      open &&
      (open.type !== type || (messageId !== null && open.messageId !== null && open.messageId !== messageId))
    )
      closeItem()
    open ??= openItem(type, messageId)
    open.messageId ??= messageId
    open.text += text
    const { messageId: _, text: __, type: ___, ...place } = open
    if (type === 'message') writer.write({ kind: 'message.delta', ...place, content_index: 0, delta: text })
    else writer.write({ kind: 'reasoning_summary.delta', ...place, summary_index: 0, delta: text })
  }

  function openItem(type: OpenItem['type'], messageId: string | null): OpenItem {
    const place = nextPlace()
    const role = type === 'message' ? { role: 'assistant' as const } : {}
    writer.write({ kind: 'output_item.added', ...place, item_type: type, ...role, status: 'in_progress' })
    if (type === 'reasoning') {
      writer.write({ kind: 'reasoning_summary.part.added', ...place, summary_index: 0, text: '' })
    }
    return { type, ...place, messageId, text: '' }
  }

  function closeItem(): void {
    if (!open) return
    const { type, messageId: _, text, ...place } = open
    open = null
    if (type === 'reasoning') {
      writer.write({ kind: 'reasoning_summary.part.done', ...place, summary_index: 0, text })
    }
    writer.write({ kind: 'output_item.done', ...place, item_type: type, status: 'completed' })
  }

  function callOf(update: ToolCallUpdate): AgentCall {
    const key = idOf(update)
    const known = calls.get(key)
    if (known) return known
    closeItem()
    step++
    const item = nextPlace()
    // The agent's own id could be one of ours, or one that no client can send.
    const id = `agent_${item.item_id}`
    const place = { ...item, tool_call_id: id }
    const kind = update.kind ?? 'other'
    const call: AgentCall = {
      callId: id,
      place,
      kind,
      name: `${agent}__${nameOf(update.name) ?? nameOf(kind) ?? 'other'}`,
      title: '',
      input: undefined,
      content: [],
      rawOutput: '',
      printed: '',
      locations: [],
      startedAt: now(),
      shown: '',
      stage: 'in_progress',
      status: '',
      hasEnded: false,
      isDenied: false,
      saved: Promise.withResolvers(),
    }
    calls.set(key, call)
    updateCall(call, update)
    writer.write(
      { kind: 'output_item.added', ...item, item_type: 'function_call', status: 'in_progress' },
      argumentsFrame(call),
      { kind: 'output_item.done', ...item, item_type: 'function_call', status: 'completed' },
    )
    return call
  }

  function takeCall(
    update: (ToolCall | ToolCallUpdate) & { sessionUpdate: string },
  ): Promise<void> | undefined {
    const isNew = !calls.has(idOf(update))
    const call = callOf(update)
    if (call.hasEnded) return
    const before = 'rawInput' in update ? JSON.stringify(call.input) : null
    updateCall(call, update)
    if (!isNew && before !== null && before !== JSON.stringify(call.input)) writer.write(argumentsFrame(call))
    if (update.content || update._meta) showOutput(call)
    const { status } = update
    if (status === 'completed' || status === 'failed') return endCall(call, status)
    // Some agents call a running call pending: only a call that we have asked about is known to wait.
    if (status === 'in_progress') call.stage = status
    const next = statusFrame(call, call.stage)
    const text = JSON.stringify(next.tool)
    if (text === call.status) return
    call.status = text
    characters += text.length
    if (characters > MAX_TEXT) throw tooLarge(agent)
    writer.write(next)
  }

  /** Shows the part of the output that is new; an output that was replaced is shown when the call ends. */
  function showOutput(call: AgentCall): void {
    const text = outputOf({ ...call, rawOutput: '' }, deps.terminalOutput)
    if (text.length <= call.shown.length || !text.startsWith(call.shown)) return
    const piece = text.slice(call.shown.length)
    call.shown = text
    characters += piece.length
    if (characters > MAX_TEXT) throw tooLarge(agent)
    writer.write({ kind: 'tool.output', ...call.place, tool_type: 'function', output: piece, partial: true })
  }

  async function endCall(call: AgentCall, status: 'completed' | 'failed'): Promise<void> {
    call.hasEnded = true
    const recorded = mayChangeFiles(call.kind) ? await deps.afterCall(call) : []
    call.saved.resolve()
    const whole = outputOf(call, deps.terminalOutput)
    const shown = shownOutput(whole)
    const isCut = shown.notices?.some((notice) => notice.type === 'truncated') ?? false
    const ref = isCut ? { output_ref: await deps.keep(whole) } : {}
    writer.write(
      ...recorded,
      { kind: 'tool.output', ...call.place, tool_type: 'function', ...shown, ...ref },
      statusFrame(call, status),
    )
    if (recorded.length > 0) await writer.flush()
  }

  /** A card for what has no other place in a transcript: plans, and updates that this version doesn't know. */
  function note(name: string, value: unknown): void {
    closeItem()
    const place = nextPlace()
    const tool_call_id = `note_${place.item_id}`
    const call = { ...place, tool_call_id }
    const tool = { tool_type: 'note', tool_call_id, status: 'completed', name }
    writer.write(
      { kind: 'output_item.added', ...place, item_type: 'note', status: 'in_progress' },
      {
        kind: 'tool.arguments.done',
        ...call,
        tool_type: 'note',
        tool_name: name,
        ...shownArguments(noteText(value)),
      },
      { kind: 'tool.status', ...call, tool },
      { kind: 'output_item.done', ...place, item_type: 'note', status: 'completed' },
    )
  }

  function changed(what: Omit<FrameDraft<'agent.updated'>, 'kind' | 'to_agent'>): void {
    writer.write({ kind: 'agent.updated', to_agent: agent, ...what })
  }

  /** Every update of the protocol, checked by the compiler. */
  const handlers: Handlers = {
    // The agent repeats the person's message, which the line already has.
    user_message_chunk: () => {},
    agent_message_chunk: ({ content, messageId }) => say('message', shownBlock(content), messageId ?? null),
    agent_thought_chunk: ({ content, messageId }) => say('reasoning', shownBlock(content), messageId ?? null),
    tool_call: takeCall,
    tool_call_update: takeCall,
    plan: ({ entries }) => note('plan', { entries }),
    available_commands_update({ availableCommands }) {
      const commands = availableCommands.slice(0, MAX_COMMANDS).map(({ name, description }) => ({
        name: plain(name, 200),
        description: plain(description, 500),
      }))
      changed({ commands })
    },
    current_mode_update: ({ currentModeId }) => changed({ mode: plain(currentModeId, 200) }),
    config_option_update({ configOptions }) {
      const model = configOptions.find((option) => option.category === 'model')
      if (model && 'currentValue' in model) changed({ model: cutText(String(model.currentValue), 200) })
    },
    session_info_update({ title }) {
      if (!isUntitled || !title) return
      isUntitled = false
      writer.write({ kind: 'conversation.retitled', title: plain(title, 200) })
    },
    usage_update({ used: tokens, size }) {
      if (Number.isSafeInteger(tokens) && Number.isSafeInteger(size)) used = { used: tokens, size }
    },
    notice: (update) => note('notice', withoutType(update)),
    compaction_update: (update) => note('compaction', withoutType(update)),
    compaction_summary_chunk: ({ content }) => say('reasoning', shownBlock(content), null),
  }

  return {
    update(value) {
      const update = value as SessionUpdate | null
      const type = update?.sessionUpdate
      if (typeof type !== 'string') return
      try {
        if (!Object.hasOwn(handlers, type)) {
          note(cutText(type, 100), withoutType(update as object))
          return writer.room()
        }
        const handle = handlers[type] as (given: SessionUpdate) => Promise<void> | undefined
        return handle(update as SessionUpdate) ?? writer.room()
      } catch (error) {
        if (!(error instanceof TypeError)) throw error
        // A field has another type than the protocol says: show it as it came.
        note(cutText(type, 100), withoutType(update as object))
      }
    },
    callOf,
    nextPlace,
    openCalls: () => [...calls.values()].filter((call) => !call.hasEnded && mayChangeFiles(call.kind)),
    saved(callIds) {
      const known = callIds.flatMap((id) => calls.get(id) ?? [])
      const changing = known.filter((call) => mayChangeFiles(call.kind))
      return Promise.all(changing.map((call) => call.saved.promise))
    },
    closeItem,
    usage: () => used,
  }
}

function withoutType(update: object): object {
  const { sessionUpdate: _, ...rest } = update as { sessionUpdate?: unknown }
  return rest
}

function shownBlock(block: ContentBlock): string {
  if (block.type === 'text') return block.text
  if (block.type === 'resource_link') return `[${block.name}](${block.uri})`
  return `[${block.type}]`
}

/** A text within its limit; anything else is shown as it came. */
function plain(value: unknown, most: number): string {
  if (typeof value !== 'string') throw new TypeError('a text is not a string')
  return cutText(value, most)
}

function nameOf(value: unknown): string | null {
  if (typeof value !== 'string') return null
  const plain = value.replaceAll(/[^\w-]+/g, '_').slice(0, 60)
  return plain === '' ? null : plain
}

function tooLarge(agent: string): ModelFailure {
  return new ModelFailure('answer_too_large', `The agent ${agent} sent too much in one answer.`, {
    isRetryable: false,
  })
}

/** Agents may send anything for an id. */
function idOf({ toolCallId }: { toolCallId: unknown }): string {
  return cutText(
    typeof toolCallId === 'string' ? toolCallId : JSON.stringify(toolCallId ?? null),
    MAX_CALL_ID,
  )
}

/** A note is kept as it came, within a limit. */
function noteText(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length > MAX_NOTE ? JSON.stringify({ text: cutText(text, MAX_NOTE) }) : text
}
