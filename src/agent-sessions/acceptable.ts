import { MAX_SESSION_LINE, type SessionEntry, type SessionHead } from '../protocol/api/agent-sessions.ts'

/** The maximum length of each field that the server accepts. Ordinary sessions have no longer values, and none with NUL. */
const LONGEST = { name: 200, kind: 200, model: 200, title: 500, call_id: 1000, path: 4096 }
const MAX_LINE_SHOWN = 1024 * 1024
const CUT = new Set<SessionEntry['type']>(['title', 'model', 'other'])

/**
 * The entry as JSON that the server accepts. An entry that it would reject is sent as type `other`, with its content, so that the
 * rest of the session can be imported.
 */
export function acceptableLine(entry: SessionEntry): string {
  const fitting = acceptable(entry)
  const line = JSON.stringify(fitting)
  if (line.length < MAX_SESSION_LINE / 2 || Buffer.byteLength(line) < MAX_SESSION_LINE) return line
  const start = line.slice(0, MAX_LINE_SHOWN)
  return JSON.stringify({
    type: 'other',
    at: entry.at,
    kind: 'oversized',
    entry: { start, length: line.length },
  })
}

function acceptable(entry: SessionEntry): SessionEntry {
  const refused = Object.entries(LONGEST).filter(([field, most]) => {
    const value: unknown = (entry as Record<string, unknown>)[field]
    return (
      typeof value === 'string' && (value.length > most || value.includes('\0') || isEmptyId(field, value))
    )
  })
  if (refused.length === 0) return entry
  if (!CUT.has(entry.type)) return { type: 'other', at: entry.at, kind: `invalid ${entry.type}`, entry }
  const cut = refused.map(([field, most]) => [
    field,
    plain((entry as Record<string, string>)[field] ?? '', most),
  ])
  return { ...entry, ...Object.fromEntries(cut) } as SessionEntry
}

export function acceptableHead(head: SessionHead): SessionHead {
  const { session_id, folder } = head
  const isFolder = folder !== null && folder.length <= LONGEST.path && !folder.includes('\0')
  return { ...head, session_id: plain(session_id, 200), folder: isFolder ? folder : null }
}

function isEmptyId(field: string, value: string): boolean {
  return value === '' && (field === 'call_id' || field === 'path')
}

function plain(text: string, most: number): string {
  return text.replaceAll('\0', '').slice(0, most)
}
