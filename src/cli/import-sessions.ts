import { realpathSync } from 'node:fs'
import { Readable } from 'node:stream'
import { acceptableHead, acceptableLine } from '../agent-sessions/acceptable.ts'
import { findSessions } from '../agent-sessions/find-sessions.ts'
import type { StoredSession, UnreadableSession } from '../agent-sessions/stored-session.ts'
import { type Client, ConnectionError, RequestError } from '../client/index.ts'
import type { SessionAgent, SessionHead, SessionImport } from '../protocol/api/agent-sessions.ts'
import { connect } from './connect.ts'
import { configAbove } from './options.ts'
import {
  bold,
  CommandError,
  count,
  dim,
  endProgress,
  localTime,
  printable,
  printJson,
  showProgress,
  size,
} from './output.ts'

/** Lines are sent in pieces of about this size. */
const PIECE = 256 * 1024
const AT_ONCE = 3

type Done = SessionImport & { session_id: string; folder: string | null }

interface ImportSessionsFlags extends Record<string, unknown> {
  all?: boolean
  dryRun?: boolean
  json?: boolean
}

interface Totals {
  done: Done[]
  failed: { session_id: string; problem: string }[]
  elsewhere: number
}

/** Imports the sessions that an agent has stored on this machine. A session that fails does not hold up the others. */
export async function importSessions(agent: SessionAgent, flags: ImportSessionsFlags): Promise<void> {
  const { project, home, agentVariables: variables } = configAbove(flags)
  const root = realpathSync(project)
  const isOfProject = ({ folder }: StoredSession) => folder !== null && isBelow(root, folder)
  if (flags.dryRun)
    return await listSessions(agent, findSessions(agent, { home, variables }), isOfProject, flags)
  const client = await connect(flags)
  const totals: Totals = { done: [], failed: [], elsewhere: 0 }
  const sessions = findSessions(agent, { home, variables })[Symbol.asyncIterator]()
  /** Takes the next session until there is none: reading one and storing another overlap. */
  async function importNext(): Promise<void> {
    for (;;) {
      const next = await sessions.next()
      if (next.done) return
      if ('problem' in next.value) {
        totals.failed.push({ session_id: next.value.id, problem: next.value.problem })
        continue
      }
      const isHere = isOfProject(next.value)
      if (!isHere && !flags.all) {
        totals.elsewhere++
        continue
      }
      showProgress(`${count(totals.done.length, 'session')} of ${agent} imported …`)
      await importOne(client, next.value, isHere, totals)
    }
  }
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, importNext))
  } finally {
    endProgress()
  }
  if (flags.json) printJson({ sessions: totals.done, failed: totals.failed, elsewhere: totals.elsewhere })
  else print(agent, totals)
  if (totals.failed.length > 0) {
    throw new CommandError(`${count(totals.failed.length, 'session')} could not be imported`)
  }
}

/** Lists the sessions that an import would read. Needs no server. */
async function listSessions(
  agent: SessionAgent,
  sessions: AsyncIterable<StoredSession | UnreadableSession>,
  isOfProject: (session: StoredSession) => boolean,
  { all, json }: ImportSessionsFlags,
): Promise<void> {
  const found: { session_id: string; folder: string | null; started_at: string; bytes: number }[] = []
  const failed: Totals['failed'] = []
  let elsewhere = 0
  for await (const session of sessions) {
    if ('problem' in session) {
      failed.push({ session_id: session.id, problem: session.problem })
      continue
    }
    const { id, folder, startedAt, bytes } = session
    if (all || isOfProject(session)) found.push({ session_id: id, folder, started_at: startedAt, bytes })
    else elsewhere++
  }
  if (json) return printJson({ sessions: found, failed, elsewhere })
  for (const { session_id, folder, started_at, bytes } of found)
    console.log(
      `${localTime(started_at)}  ${printable(session_id)}  ${size(bytes)}  ${dim(printable(folder ?? 'no folder'))}`,
    )
  printFailed(failed)
  console.log(bold(`Found ${count(found.length, `${agent} session`)}.`))
  noteElsewhere(elsewhere)
}

function printFailed(failed: Totals['failed']): void {
  for (const { session_id, problem } of failed)
    console.log(`failed    session ${printable(session_id)}: ${printable(problem)}`)
}

function noteElsewhere(elsewhere: number): void {
  if (elsewhere > 0)
    console.log(`${count(elsewhere, 'session')} from other folders skipped; use --all to include them.`)
}

async function importOne(
  client: Client,
  session: StoredSession,
  isHere: boolean,
  totals: Totals,
): Promise<void> {
  const { agent, id: session_id, folder, startedAt } = session
  try {
    const head = {
      agent,
      session_id,
      folder,
      is_here: isHere,
      started_at: startedAt,
      ...(session.title === undefined ? {} : { title: session.title }),
    }
    const report = await client.importSession(
      Readable.toWeb(Readable.from(bytesOf(head, session))) as ReadableStream,
    )
    totals.done.push({ ...report, session_id, folder })
  } catch (error) {
    // A session that can't be read or that the server refuses says why; a server that is gone ends the import.
    const isOfServer =
      error instanceof ConnectionError || (error instanceof RequestError && error.status >= 500)
    if (isOfServer) throw error
    totals.failed.push({ session_id, problem: (error as Error).message })
  }
}

async function* bytesOf(head: SessionHead, session: StoredSession): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder()
  let piece = `${JSON.stringify(acceptableHead(head))}\n`
  for await (const entry of session.entries()) {
    piece += `${acceptableLine(entry)}\n`
    if (piece.length < PIECE) continue
    yield encoder.encode(piece)
    piece = ''
  }
  yield encoder.encode(piece)
}

function isBelow(root: string, folder: string): boolean {
  const real = realOf(folder)
  return real === root || real.startsWith(`${root}/`)
}

/** The folder may be gone. */
function realOf(folder: string): string {
  try {
    return realpathSync(folder)
  } catch {
    return folder
  }
}

const explanations: Partial<Record<SessionImport['status'], string>> = {
  continued: 'was continued here; entries that are new since then were not added',
  changed: 'differs from what was imported; left as it is',
  deleted: 'was deleted here; undelete it to import it again',
}

function print(agent: SessionAgent, { done, failed, elsewhere }: Totals): void {
  for (const { status, conversation_id: id, session_id, added } of done) {
    const why = explanations[status]
    if (status === 'imported' || status === 'updated')
      console.log(`${status.padEnd(9)} ${id}  ${count(added, 'new entry', 'new entries')}`)
    else if (why !== undefined)
      console.log(`${status.padEnd(9)} ${id}  session ${printable(session_id)} ${why}`)
  }
  printFailed(failed)
  const others = new Map<string, number>()
  for (const { others: of } of done)
    for (const [kind, many] of Object.entries(of)) others.set(kind, (others.get(kind) ?? 0) + many)
  const kept = [...others.values()].reduce((sum, many) => sum + many, 0)
  if (done.length + failed.length + elsewhere === 0)
    return console.log(`No sessions of ${agent} were found on this machine.`)
  const changed = done.filter(({ added }) => added > 0).length
  console.log(bold(`Imported ${count(changed, `${agent} session`)}; ${done.length - changed} unchanged.`))
  if (kept > 0) {
    const most = [...others].sort((a, b) => b[1] - a[1]).slice(0, 5)
    const shown = most.map(([kind, many]) => `${printable(kind)} ${many.toLocaleString('en')}`).join(', ')
    console.log(
      `Kept, but not shown in transcripts: ${count(kept, 'entry', 'entries')} (${shown}${others.size > 5 ? ', …' : ''}).`,
    )
  }
  noteElsewhere(elsewhere)
}
