import { basename } from 'node:path'
import type { SessionAgent, SessionEntry } from '../protocol/api/agent-sessions.ts'

/** A session that another agent has stored on this machine. */
export interface StoredSession {
  agent: SessionAgent
  id: string
  /** The folder where the agent worked. */
  folder: string | null
  startedAt: string
  title?: string
  bytes: number
  /** The entries in their order. An answer that is not complete yet is left for the next import. */
  entries(): AsyncIterable<SessionEntry>
}

/** A session that can't be read, for example for lack of permission. */
export interface UnreadableSession {
  id: string
  problem: string
}

/** Reads the session in a file; a failure is returned, so that it doesn't hold up the other sessions. */
export async function readable<T>(file: string, read: () => Promise<T>): Promise<T | UnreadableSession> {
  try {
    return await read()
  } catch (error) {
    return { id: basename(file), problem: (error as Error).message }
  }
}

/** Where the agents keep their sessions. */
export interface SessionPlaces {
  home: string
  /** CLAUDE_CONFIG_DIR, CODEX_HOME and XDG_DATA_HOME, as far as they are set. */
  variables: Readonly<Record<string, string>>
}

/** Sessions come from files that anything may have written. */
export function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}
}

export function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

export function asString(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

/** A time as frames have it; null if it is none. */
export function asTime(value: unknown): string | null {
  if (typeof value !== 'string' && typeof value !== 'number') return null
  const date = new Date(value)
  const isKnown = date.getTime() >= 0 && date.getFullYear() < 10_000
  return isKnown ? date.toISOString() : null
}

/** A path below the folder as the project has it; any other stays absolute. */
export function pathIn(folder: string | null, path: string): string {
  const isBelow = folder !== null && path.startsWith(`${folder}/`)
  return isBelow ? path.slice(folder.length + 1) : path
}

/** The diff of a file that is new. */
export function addedDiff(content: string): string {
  if (content === '') return ''
  const lines = content.split('\n')
  const isEnded = lines.at(-1) === ''
  if (isEnded) lines.pop()
  const end = isEnded ? '' : '\\ No newline at end of file\n'
  return `@@ -0,0 +1${lines.length === 1 ? '' : `,${lines.length}`} @@\n${lines.map((line) => `+${line}\n`).join('')}${end}`
}

/** The text of a list of parts; other parts are named. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  return asList(content)
    .map((part) => asString(asObject(part).text) ?? `[${asString(asObject(part).type) ?? 'content'}]`)
    .join('\n')
}
