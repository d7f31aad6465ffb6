import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { SessionEntry } from '../protocol/api/agent-sessions.ts'
import { filesBelow } from './files-below.ts'
import { jsonLines } from './json-lines.ts'
import {
  addedDiff,
  asObject,
  asString,
  asTime,
  pathIn,
  readable,
  type SessionPlaces,
  type StoredSession,
  textOf,
  type UnreadableSession,
} from './stored-session.ts'

/** Codex: one file of JSON lines for each session, in folders by date. */

/** Codex gives the model its surroundings as messages of the user. */
const SURROUNDINGS =
  /^\s*(<(environment_context|user_instructions|skills_instructions|permissions|collaboration_mode|turn_aborted|subagent_notification|model_switch|INSTRUCTIONS)\b|# AGENTS\.md instructions)/

export async function* codexSessions({
  home,
  variables,
}: SessionPlaces): AsyncGenerator<StoredSession | UnreadableSession> {
  const codex = variables.CODEX_HOME ?? join(home, '.codex')
  for (const name of ['sessions', 'archived_sessions']) {
    for (const file of await filesBelow(join(codex, name), { depth: 4, name: /^rollout-.*\.jsonl$/ })) {
      const session = await readable(file, () => sessionIn(file))
      if (session) yield session
    }
  }
}

async function sessionIn(file: string): Promise<StoredSession | null> {
  const head = await headOf(file)
  if (!head) return null
  const { size: bytes } = await stat(file)
  const { folder, startedAt } = head
  return { agent: 'codex', ...head, bytes, entries: () => entriesOf(file, folder, startedAt) }
}

async function headOf(
  file: string,
): Promise<{ id: string; folder: string | null; startedAt: string } | null> {
  for await (const line of jsonLines(file)) {
    const { type, payload, timestamp } = 'value' in line ? asObject(line.value) : {}
    const { id, cwd } = asObject(payload)
    const startedAt = asTime(timestamp)
    if (type !== 'session_meta' || typeof id !== 'string' || startedAt === null) return null
    return { id: id.slice(0, 200), folder: asString(cwd), startedAt }
  }
  return null
}

async function* entriesOf(
  file: string,
  folder: string | null,
  startedAt: string,
): AsyncGenerator<SessionEntry> {
  let at = startedAt
  let model: string | null = null
  for await (const line of jsonLines(file)) {
    if ('problem' in line) {
      yield { type: 'other', at, kind: line.problem, entry: line.kept }
      continue
    }
    const entry = asObject(line.value)
    at = asTime(entry.timestamp) ?? at
    const payload = asObject(entry.payload)
    if (entry.type === 'turn_context' && typeof payload.model === 'string' && payload.model !== model) {
      model = payload.model
      yield { type: 'model', at, model: model.slice(0, 200) }
    }
    const found = entry.type === 'response_item' ? itemEntries(payload, at) : eventEntries(entry, at, folder)
    if (found.length > 0) yield* found
    else {
      const kind = [entry.type, payload.type, asObject(payload.item).type].filter(isText).join(' ')
      yield { type: 'other', at, kind: kind.slice(0, 200) || 'unknown', entry }
    }
  }
}

/** An item of the conversation with the model; an empty list if it has no place in a transcript. */
function itemEntries(item: Record<string, unknown>, at: string): SessionEntry[] {
  const callId = asString(item.call_id)
  switch (item.type) {
    case 'message': {
      const text = textOf(item.content)
      if (item.role === 'assistant') return [{ type: 'text', at, text }]
      return item.role === 'user' && !SURROUNDINGS.test(text) ? [{ type: 'message', at, text }] : []
    }
    case 'reasoning': {
      const text = textOf(item.summary)
      return text === '' ? [] : [{ type: 'reasoning', at, text }]
    }
    case 'function_call':
    case 'custom_tool_call': {
      const [name, input] = [asString(item.name), asString(item.arguments) ?? asString(item.input)]
      if (!callId || !name || input === null) return []
      return [{ type: 'call', at, call_id: callId, name: name.slice(0, 200), input }]
    }
    case 'local_shell_call':
      if (!callId) return []
      return [
        { type: 'call', at, call_id: callId, name: 'local_shell', input: JSON.stringify(item.action ?? {}) },
      ]
    case 'function_call_output':
    case 'custom_tool_call_output': {
      if (!callId) return []
      const { content, success } = asObject(item.output)
      const output = asString(item.output) ?? asString(content) ?? textOf(content ?? item.output)
      const hasFailed = success === false || exitCode(output) > 0
      return [{ type: 'output', at, call_id: callId, output, is_error: hasFailed }]
    }
    default:
      return []
  }
}

function eventEntries(entry: Record<string, unknown>, at: string, folder: string | null): SessionEntry[] {
  const payload = asObject(entry.payload)
  if (entry.type !== 'event_msg') return []
  if (payload.type === 'token_count') {
    const { input_tokens, output_tokens, cached_input_tokens } = asObject(
      asObject(payload.info).last_token_usage,
    )
    if (!isCount(input_tokens) || !isCount(output_tokens)) return []
    const cached = isCount(cached_input_tokens) ? cached_input_tokens : 0
    return [{ type: 'usage', at, input: input_tokens, output: output_tokens, cached }]
  }
  // The first is how recent versions report a patch.
  const item = asObject(payload.item)
  if (payload.type === 'item_completed' && item.type === 'FileChange' && item.status === 'completed') {
    return editsIn(asObject(item.changes), asString(item.id), at, folder)
  }
  if (payload.type === 'patch_apply_end' && payload.success === true) {
    return editsIn(asObject(payload.changes), asString(payload.call_id), at, folder)
  }
  return []
}

function editsIn(
  changes: Record<string, unknown>,
  callId: string | null,
  at: string,
  folder: string | null,
): SessionEntry[] {
  return Object.entries(changes).map(([path, given]): SessionEntry => {
    const change = asObject(given)
    const edit = {
      type: 'edit' as const,
      at,
      call_id: callId || null,
      path: pathIn(folder, path).slice(0, 4096),
    }
    const inner = (name: string) => asObject(change[name])
    const type = asString(change.type) ?? Object.keys(change)[0]
    const content = asString(change.content) ?? asString(inner('add').content)
    if (type === 'add')
      return { ...edit, change: 'added', diff: content === null ? null : addedDiff(content) }
    if (type === 'delete') return { ...edit, change: 'deleted', diff: null }
    const diff = asString(change.unified_diff) ?? asString(inner('update').unified_diff)
    return { ...edit, change: 'modified', diff }
  })
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

/** Codex puts a command's exit code into the lines before its output; 0 if there is none. */
function exitCode(output: string): number {
  const end = output.indexOf('\nOutput:')
  const head = end < 0 ? '' : output.slice(0, Math.min(end, 1000))
  return Number(/^Process exited with code (\d+)$/m.exec(head)?.[1] ?? 0)
}
