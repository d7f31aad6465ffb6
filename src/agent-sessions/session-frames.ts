import { shownArguments, shownOutput } from '../agent/provider/stream-items.ts'
import { derivedId } from '../core/derived-id.ts'
import { cutText } from '../core/limits.ts'
import { isSecretKey, REDACTED } from '../core/redact.ts'
import type { ImportedFrames } from '../core/session-imports.ts'
import type { SessionAgent, SessionEntry } from '../protocol/api/agent-sessions.ts'
import type { FrameDraft, Notice } from '../protocol/frames.ts'
import type { ConversationId, RunId } from '../protocol/ids.ts'

/** An answer with more characters than this is divided into runs. */
const MAX_RUN_CHARACTERS = 8 * 1024 * 1024
const MAX_TITLE = 500
/** What the frames of an entry hold besides its text. */
const ENTRY_CHARACTERS = 1000

export interface SessionFrames {
  /** `index` is the entry's number in the session, from which the ids of its frames follow. */
  add(entry: SessionEntry, index: number): void
  /** Takes over what later entries need of one that is imported already. */
  skip(entry: SessionEntry): void
  /** Ends the open run. */
  endRun(): void
  isRunOpen(): boolean
  /** The open run has so much that it must end. */
  isRunLong(): boolean
  /** The frames since the last call, and their characters. */
  take(): ImportedFrames[]
  characters(): number
}

interface OpenCall {
  place: { response_id: string; output_index: number; item_id: string; tool_call_id: string }
  name: string
  title: string
  kind: string
}

interface OpenRun {
  id: RunId
  items: number
  characters: number
  /** Texts since the last call: the answer. */
  said: string[]
  calls: Map<string, OpenCall>
  usage: { input_tokens: number; output_tokens: number; cached_input_tokens: number; requests: number }
}

/** Turns the entries of a session into the frames that the same conversation would have left here. */
export function createSessionFrames(deps: {
  agent: SessionAgent
  conversationId: ConversationId
  /** Keeps an output that a frame can't show whole, and returns its key. */
  keep(text: string): string
}): SessionFrames {
  const { agent, conversationId, keep } = deps
  let parts: ImportedFrames[] = []
  let characters = 0
  let run: OpenRun | null = null
  let at = ''
  let model: string | null = null
  let introduced: string | null = null

  function write(frame: FrameDraft): void {
    const last = parts.at(-1)
    const runId = run?.id ?? null
    if (last?.runId === runId && last.timestamp === at) last.frames.push(frame)
    else parts.push({ runId, timestamp: at, frames: [frame] })
  }

  function openRun(index: number): OpenRun {
    if (run) return run
    const usage = { input_tokens: 0, output_tokens: 0, cached_input_tokens: 0, requests: 0 }
    const id = derivedId('run', Date.parse(at), conversationId, index)
    introduced = null
    run = { id, items: 0, characters: 0, said: [], calls: new Map(), usage }
    return run
  }

  /** Names the agent and its model, in each run and where they are new. */
  function introduce(): void {
    const name = `${agent} ${model}`
    if (name === introduced) return
    introduced = name
    write({ kind: 'agent.updated', to_agent: agent, ...(model === null ? {} : { model }) })
  }

  function endRun(): void {
    if (!run) return
    for (const id of run.calls.keys()) endCall(run, id, { output: 'Outcome unknown.' }, 'failed')
    const { usage, said } = run
    const total_tokens = usage.input_tokens + usage.output_tokens
    write({
      kind: 'final',
      final: {
        status: 'completed',
        response_text: said.join('\n\n'),
        attachments: [],
        usage: { ...usage, total_tokens },
      },
    })
    run = null
  }

  function nextPlace(open: OpenRun) {
    const output_index = open.items++
    return { response_id: 'session', output_index, item_id: `item_${output_index + 1}` }
  }

  function say(type: 'message' | 'reasoning', text: string, index: number): void {
    const open = beginItem(index)
    const place = nextPlace(open)
    if (type === 'message') {
      open.said.push(text)
      write({ kind: 'message.delta', ...place, content_index: 0, delta: text })
    } else write({ kind: 'reasoning_summary.part.done', ...place, summary_index: 0, text })
    write({ kind: 'output_item.done', ...place, item_type: type, status: 'completed' })
  }

  /** The open run; without one, the answer goes on without a message. */
  function beginItem(index: number): OpenRun {
    const isNew = run === null
    const open = openRun(index)
    if (isNew) introduce()
    return open
  }

  function call({ call_id, name, input }: Extract<SessionEntry, { type: 'call' }>, index: number): void {
    const open = beginItem(index)
    open.said = []
    const place = nextPlace(open)
    const tool_call_id = `${agent}_${derivedId('msg', Date.parse(at), conversationId, index).slice(4)}`
    const { kind, title } = describe(name, input)
    const opened = { place: { ...place, tool_call_id }, name: `${agent}__${plainName(name)}`, kind, title }
    open.calls.set(call_id, opened)
    const shown = shownArguments(input)
    const args = { tool_type: 'function', tool_name: opened.name, ...shown }
    write({ kind: 'tool.arguments.done', ...opened.place, ...args })
    write(statusFrame(opened, 'in_progress'))
  }

  function output({ call_id, output: text, is_error }: Extract<SessionEntry, { type: 'output' }>): boolean {
    if (!run?.calls.has(call_id)) return false
    const shown = shownOutput(text)
    const isCut = shown.notices?.some(({ type }) => type === 'truncated') ?? false
    const ref = isCut ? { output_ref: keep(text) } : {}
    endCall(run, call_id, { ...shown, ...ref }, is_error ? 'failed' : 'completed')
    return true
  }

  function endCall(
    open: OpenRun,
    callId: string,
    shown: Pick<FrameDraft<'tool.output'>, 'notices' | 'output_ref'> & { output: unknown },
    status: 'completed' | 'failed',
  ): void {
    const found = open.calls.get(callId)
    if (!found) return
    open.calls.delete(callId)
    write({ kind: 'tool.output', ...found.place, tool_type: 'function', ...shown })
    write(statusFrame(found, status))
  }

  function edit(
    { call_id, path, change, diff }: Extract<SessionEntry, { type: 'edit' }>,
    index: number,
  ): void {
    const open = beginItem(index)
    const place = (call_id !== null && open.calls.get(call_id)?.place) || {}
    const count = (sign: string) => diff?.split('\n').filter((line) => line.startsWith(sign)).length ?? 0
    const counts = { additions: count('+'), deletions: count('-') }
    write({ kind: 'file.edit', ...place, path, change, ...counts, ...(diff === null ? {} : { diff }) })
  }

  function add(entry: SessionEntry, index: number): void {
    at = entry.at
    const size = ENTRY_CHARACTERS + sizeOf(entry)
    characters += size
    switch (entry.type) {
      case 'message': {
        endRun()
        const message_id = derivedId('msg', Date.parse(at), conversationId, index)
        openRun(index)
        write({ kind: 'message.user', message_id, content: entry.text })
        introduce()
        break
      }
      case 'text':
        say('message', entry.text, index)
        break
      case 'reasoning':
        say('reasoning', entry.text, index)
        break
      case 'call':
        call(entry, index)
        break
      case 'output':
        // An output without its call is kept as it is.
        if (!output(entry)) keepEntry('output', entry)
        break
      case 'edit':
        edit(entry, index)
        break
      case 'usage':
        if (run) addUsage(run, entry)
        else keepEntry('usage', entry)
        break
      case 'model':
        model = entry.model
        if (run) introduce()
        break
      case 'title':
        write({ kind: 'conversation.retitled', title: cutText(entry.title, MAX_TITLE) })
        break
      case 'other':
        keepEntry(entry.kind, entry.entry)
        break
    }
    if (run) run.characters += size
  }

  function keepEntry(entryKind: string, entry: unknown): void {
    const notices: Notice[] = []
    const kept = withoutSecrets(entry, 'entry', notices)
    const noted = notices.length > 0 ? { notices } : {}
    write({ kind: 'import.entry', agent, entry_kind: entryKind, entry: kept, ...noted })
  }

  return {
    add,
    skip(entry) {
      if (entry.type === 'model') model = entry.model
      introduced = `${agent} ${model}`
    },
    endRun,
    isRunOpen: () => run !== null,
    isRunLong: () => run !== null && run.characters > MAX_RUN_CHARACTERS,
    take() {
      const taken = parts
      parts = []
      characters = 0
      return taken
    },
    characters: () => characters,
  }
}

/** Entries have many counts of tokens; a secret is a text. */
function withoutSecrets(value: unknown, path: string, notices: Notice[]): unknown {
  if (Array.isArray(value)) return value.map((one, index) => withoutSecrets(one, `${path}.${index}`, notices))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => {
      const at = `${path}.${key}`
      if (typeof one !== 'string' || !isSecretKey(key)) return [key, withoutSecrets(one, at, notices)]
      notices.push({ type: 'redacted', path: at, message: 'Redacted because of its key name.' })
      return [key, REDACTED]
    }),
  )
}

function addUsage(
  { usage }: OpenRun,
  { input, output, cached }: Extract<SessionEntry, { type: 'usage' }>,
): void {
  usage.input_tokens += input
  usage.output_tokens += output
  usage.cached_input_tokens += cached
  usage.requests++
}

function statusFrame({ place, name, title, kind }: OpenCall, status: string): FrameDraft<'tool.status'> {
  const { tool_call_id } = place
  return {
    kind: 'tool.status',
    ...place,
    tool: { tool_type: 'function', tool_call_id, status, name, title, kind },
  }
}

const kinds: readonly [RegExp, string][] = [
  [/^(bash|shell|local_shell|exec_command|write_stdin|run_.*|killshell|bashoutput)$/i, 'execute'],
  [/^(edit|multiedit|write|notebookedit|apply_patch|patch)$/i, 'edit'],
  [/^(read|view_image)$/i, 'read'],
  [/^(grep|glob|ls|list|toolsearch)$/i, 'search'],
  [/^(webfetch|websearch|web_search|fetch)$/i, 'fetch'],
  [/^(todowrite|update_plan|task.*|agent)$/i, 'think'],
]

/** What a call did, as hosted agents describe theirs. */
function describe(name: string, input: string): { kind: string; title: string } {
  const kind = kinds.find(([pattern]) => pattern.test(name))?.[1] ?? 'other'
  const given = parsed(input)
  const text = [given.command, given.cmd, given.file_path, given.filePath, given.path, given.pattern].find(
    (value): value is string => typeof value === 'string',
  )
  return { kind, title: cutText(text ?? name, MAX_TITLE) }
}

function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function plainName(name: string): string {
  return name.replaceAll(/[^\w-]+/g, '_').slice(0, 60) || 'other'
}

function sizeOf(entry: SessionEntry): number {
  switch (entry.type) {
    case 'message':
    case 'text':
    case 'reasoning':
      return entry.text.length
    case 'call':
      return entry.input.length
    case 'output':
      return Math.min(entry.output.length, 10_000)
    case 'edit':
      return entry.diff?.length ?? 0
    case 'other':
      return JSON.stringify(entry.entry ?? null).length
    default:
      return 0
  }
}
