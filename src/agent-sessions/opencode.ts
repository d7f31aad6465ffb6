import { existsSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import type { SessionEntry } from '../protocol/api/agent-sessions.ts'
import {
  addedDiff,
  asList,
  asObject,
  asString,
  asTime,
  pathIn,
  type SessionPlaces,
  type StoredSession,
} from './stored-session.ts'

/** opencode: one SQLite database with the sessions of all projects. */

interface SessionRow {
  id: string
  parent_id: string | null
  directory: string
  /** Columns may have lost their constraints. */
  title: unknown
  time_created: number
}

interface DataRow {
  id: string
  time_created: number
  data: string
}

const BUSY_MS = 5000

export async function* opencodeSessions({ home, variables }: SessionPlaces): AsyncGenerator<StoredSession> {
  const file = join(variables.XDG_DATA_HOME ?? join(home, '.local/share'), 'opencode/opencode.db')
  if (!existsSync(file)) return
  const rows = inDatabase(file, (database) =>
    database
      .prepare('select id, parent_id, directory, title, time_created from session order by time_created, id')
      .all(),
  ) as SessionRow[]
  for (const { id, parent_id, directory, title, time_created } of rows) {
    const startedAt = asTime(time_created)
    // A session with a parent is the work of a sub-agent, which its parent's call reports.
    if (startedAt === null || parent_id !== null) continue
    const named = asString(title)?.replaceAll('\0', '').slice(0, 500)
    const session = { agent: 'opencode' as const, id, folder: asString(directory), startedAt, bytes: 0 }
    yield {
      ...session,
      // Not an entry: opencode renames its sessions.
      ...(named ? { title: named } : {}),
      entries: () => entriesOf(file, { id, directory, startedAt }),
    }
  }
}

async function* entriesOf(
  file: string,
  { id, directory, startedAt }: { id: string; directory: string; startedAt: string },
): AsyncGenerator<SessionEntry> {
  const messages = inDatabase(file, (database) =>
    database
      .prepare('select id, time_created, data from message where session_id = ? order by time_created, id')
      .all(id),
  ) as DataRow[]
  let model: string | null = null
  for (const message of messages) {
    const data = parsed(message.data)
    const at = asTime(message.time_created) ?? startedAt
    const isAnswer = data.role === 'assistant'
    // An answer that is still being written comes with the next import, and so does all after it.
    if (isAnswer && asObject(data.time).completed === undefined && data.error === undefined) return
    const used = asString(data.modelID)
    if (isAnswer && used !== null && used !== model) {
      model = used
      yield { type: 'model', at, model: used.slice(0, 200) }
    }
    const parts = inDatabase(file, (database) =>
      database
        .prepare('select id, time_created, data from part where message_id = ? order by id')
        .all(message.id),
    ) as DataRow[]
    for (const part of parts) {
      const partAt = asTime(part.time_created) ?? at
      yield* mapped(parsed(part.data), partAt, isAnswer, directory)
    }
    if (data.error !== undefined) yield { type: 'other', at, kind: 'error', entry: data.error }
  }
}

function mapped(
  part: Record<string, unknown>,
  at: string,
  isAnswer: boolean,
  folder: string,
): SessionEntry[] {
  const text = asString(part.text)
  if (part.type === 'text' && text !== null && part.synthetic !== true) {
    return [{ type: isAnswer ? 'text' : 'message', at, text }]
  }
  if (part.type === 'reasoning' && text !== null && text !== '') return [{ type: 'reasoning', at, text }]
  if (part.type === 'tool') return callEntries(part, at, folder)
  if (part.type === 'step-finish') {
    const { input, output, cache } = asObject(part.tokens)
    const cached = count(asObject(cache).read)
    return [{ type: 'usage', at, input: count(input) + cached, output: count(output), cached }]
  }
  return [{ type: 'other', at, kind: (asString(part.type) ?? 'unknown').slice(0, 200), entry: part }]
}

function callEntries(part: Record<string, unknown>, at: string, folder: string): SessionEntry[] {
  const [id, name] = [asString(part.callID), asString(part.tool)]
  const state = asObject(part.state)
  if (!id || !name) return [{ type: 'other', at, kind: 'tool', entry: part }]
  const input = JSON.stringify(state.input ?? {})
  const isError = state.status === 'error'
  const { exit } = asObject(state.metadata)
  const hasFailed = isError || (typeof exit === 'number' && exit !== 0)
  const output = asString(isError ? state.error : state.output)
  const ended = asTime(asObject(state.time).end) ?? at
  return [
    { type: 'call', at, call_id: id, name: name.slice(0, 200), input },
    ...(isError ? [] : editsOf(name, state, id, ended, folder)),
    ...(output === null
      ? []
      : [{ type: 'output' as const, at: ended, call_id: id, output, is_error: hasFailed }]),
  ]
}

function editsOf(
  tool: string,
  state: Record<string, unknown>,
  callId: string,
  at: string,
  folder: string,
): SessionEntry[] {
  const input = asObject(state.input)
  const metadata = asObject(state.metadata)
  const path = asString(input.filePath)
  const edit = { type: 'edit' as const, at, call_id: callId }
  if ((tool === 'write' || tool === 'edit') && path) {
    const isNew = tool === 'write' && metadata.exists === false
    const content = asString(input.content)
    const diff = isNew && content !== null ? addedDiff(content) : hunksOf(asString(metadata.diff))
    return [{ ...edit, path: pathIn(folder, path), change: isNew ? 'added' : 'modified', diff }]
  }
  return asList(metadata.files).flatMap((given): SessionEntry[] => {
    const { filePath, type, patch, diff } = asObject(given)
    if (tool !== 'apply_patch' || typeof filePath !== 'string' || filePath === '') return []
    const change = type === 'add' ? 'added' : type === 'delete' ? 'deleted' : 'modified'
    const lines = hunksOf(asString(patch) ?? asString(diff))
    return [{ ...edit, path: pathIn(folder, filePath), change, diff: lines }]
  })
}

/** A diff without the lines that name the file. */
function hunksOf(diff: string | null): string | null {
  const start = diff === null ? -1 : diff.search(/^@@ /m)
  return diff === null || start < 0 ? null : diff.slice(start)
}

function parsed(text: string): Record<string, unknown> {
  try {
    return asObject(JSON.parse(text))
  } catch {
    return {}
  }
}

function count(value: unknown): number {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : 0
}

/** Opens the database for one query only: opencode may be at work in it. */
function inDatabase<T>(file: string, query: (database: Database.Database) => T): T {
  const database = new Database(file, { readonly: true, fileMustExist: true, timeout: BUSY_MS })
  try {
    return query(database)
  } finally {
    database.close()
  }
}
