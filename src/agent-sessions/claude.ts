import { stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { SessionEntry } from '../protocol/api/agent-sessions.ts'
import { filesBelow } from './files-below.ts'
import { jsonLines } from './json-lines.ts'
import {
  addedDiff,
  asList,
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

/** Claude Code: one file of JSON lines for each session, in a folder for each project. */

const HEAD_LINES = 200

export async function* claudeSessions({
  home,
  variables,
}: SessionPlaces): AsyncGenerator<StoredSession | UnreadableSession> {
  const folder = join(variables.CLAUDE_CONFIG_DIR ?? join(home, '.claude'), 'projects')
  for (const file of await filesBelow(folder, { depth: 2, name: /^[0-9a-f-]{36}\.jsonl$/ })) {
    const session = await readable(file, () => sessionIn(file))
    if (session) yield session
  }
}

/** Null for a file without messages. */
async function sessionIn(file: string): Promise<StoredSession | null> {
  const head = await headOf(file)
  if (!head) return null
  const { size: bytes } = await stat(file)
  const id = basename(file, '.jsonl')
  const entries = () => entriesOf(file, head.folder, head.startedAt)
  return { agent: 'claude', id, ...head, bytes, entries }
}

async function headOf(file: string): Promise<{ folder: string | null; startedAt: string } | null> {
  let folder: string | null = null
  let startedAt: string | null = null
  let lines = 0
  for await (const line of jsonLines(file)) {
    const entry = 'value' in line ? asObject(line.value) : {}
    folder ??= asString(entry.cwd)
    startedAt ??= asTime(entry.timestamp)
    if ((folder !== null && startedAt !== null) || ++lines === HEAD_LINES) break
  }
  return startedAt === null ? null : { folder, startedAt }
}

async function* entriesOf(
  file: string,
  folder: string | null,
  startedAt: string,
): AsyncGenerator<SessionEntry> {
  let at = startedAt
  let model: string | null = null
  /** The blocks of one answer are lines of their own, each with the usage of the whole. */
  let counted: string | null = null
  for await (const line of jsonLines(file)) {
    if ('problem' in line) {
      yield { type: 'other', at, kind: line.problem, entry: line.kept }
      continue
    }
    const entry = asObject(line.value)
    at = asTime(entry.timestamp) ?? at
    const message = asObject(entry.message)
    const used = entry.type === 'assistant' ? asString(message.model) : null
    if (used !== null && used !== model && !used.startsWith('<')) {
      model = used
      yield { type: 'model', at, model: used.slice(0, 200) }
    }
    yield* mapped(entry, at, folder)
    const id = asString(message.id)
    if (entry.type === 'assistant' && id !== null && id !== counted) {
      counted = id
      yield usageOf(asObject(message.usage), at)
    }
  }
}

function mapped(entry: Record<string, unknown>, at: string, folder: string | null): SessionEntry[] {
  const { type } = entry
  const isAside = entry.isMeta === true || entry.isCompactSummary === true || entry.isSidechain === true
  const { content } = asObject(entry.message)
  if (!isAside && type === 'user') {
    if (typeof content === 'string') return [{ type: 'message', at, text: content }]
    const found = userEntries(asList(content), entry, at, folder)
    if (found.length > 0) return found
  }
  if (!isAside && type === 'assistant') {
    const found = asList(content).map((part) => answerEntry(asObject(part), at))
    if (found.length > 0) return found
  }
  const title = asString(entry.customTitle) ?? asString(entry.aiTitle) ?? asString(entry.summary)
  if (title !== null && (type === 'summary' || type === 'custom-title' || type === 'ai-title')) {
    return [{ type: 'title', at, title: title.slice(0, 500) }]
  }
  return [{ type: 'other', at, kind: (asString(type) ?? 'unknown').slice(0, 200), entry }]
}

function userEntries(
  parts: unknown[],
  entry: Record<string, unknown>,
  at: string,
  folder: string | null,
): SessionEntry[] {
  return parts.flatMap((given): SessionEntry[] => {
    const part = asObject(given)
    if (part.type === 'text' && typeof part.text === 'string')
      return [{ type: 'message', at, text: part.text }]
    const callId = asString(part.tool_use_id)
    if (part.type !== 'tool_result' || !callId) {
      return [{ type: 'other', at, kind: `user ${asString(part.type) ?? ''}`.slice(0, 200), entry: given }]
    }
    const output = { type: 'output' as const, at, call_id: callId, output: textOf(part.content) }
    const edit = editIn(asObject(entry.toolUseResult), callId, at, folder)
    return [...(edit ? [edit] : []), { ...output, is_error: part.is_error === true }]
  })
}

function answerEntry(part: Record<string, unknown>, at: string): SessionEntry {
  if (part.type === 'text' && typeof part.text === 'string') return { type: 'text', at, text: part.text }
  // Thoughts that are only a signature have no text.
  if (part.type === 'thinking' && typeof part.thinking === 'string' && part.thinking !== '') {
    return { type: 'reasoning', at, text: part.thinking }
  }
  const [id, name] = [asString(part.id), asString(part.name)]
  if (part.type === 'tool_use' && id && name) {
    const input = JSON.stringify(part.input ?? {})
    return { type: 'call', at, call_id: id, name: name.slice(0, 200), input }
  }
  return { type: 'other', at, kind: `assistant ${asString(part.type) ?? ''}`.slice(0, 200), entry: part }
}

function editIn(
  result: Record<string, unknown>,
  callId: string,
  at: string,
  folder: string | null,
): SessionEntry | null {
  const path = asString(result.filePath)
  if (!path || !Array.isArray(result.structuredPatch)) return null
  const edit = { type: 'edit' as const, at, call_id: callId, path: pathIn(folder, path) }
  const isNew = result.type === 'create' || result.originalFile === null
  if (isNew && typeof result.content === 'string') {
    return { ...edit, change: 'added', diff: addedDiff(result.content) }
  }
  return { ...edit, change: 'modified', diff: patchText(result.structuredPatch) }
}

function patchText(hunks: unknown[]): string | null {
  let text = ''
  for (const given of hunks) {
    const { oldStart, oldLines, newStart, newLines, lines } = asObject(given)
    const numbers = [oldStart, oldLines, newStart, newLines].map(Number)
    const changed = asList(lines).map(asString)
    if (!numbers.every(Number.isSafeInteger) || changed.includes(null)) return null
    const [old = 0, removed = 0, now = 0, added = 0] = numbers
    text += `@@ -${old},${removed} +${now},${added} @@\n${changed.map((line) => `${line ?? ''}\n`).join('')}`
  }
  return text === '' ? null : text
}

function usageOf(usage: Record<string, unknown>, at: string): SessionEntry {
  const count = (value: unknown) => (Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : 0)
  const cached = count(usage.cache_read_input_tokens)
  const input = count(usage.input_tokens) + count(usage.cache_creation_input_tokens) + cached
  return { type: 'usage', at, input, output: count(usage.output_tokens), cached }
}
