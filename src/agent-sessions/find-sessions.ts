import type { SessionAgent } from '../protocol/api/agent-sessions.ts'
import { claudeSessions } from './claude.ts'
import { codexSessions } from './codex.ts'
import type { SessionPlaces, StoredSession, UnreadableSession } from './stored-session.ts'

const readers: Record<
  SessionAgent,
  (places: SessionPlaces) => AsyncIterable<StoredSession | UnreadableSession>
> = {
  claude: claudeSessions,
  codex: codexSessions,
  async *opencode(places) {
    // The database driver is only needed for this agent.
    const { opencodeSessions } = await import('./opencode.ts')
    yield* opencodeSessions(places)
  },
}

/** The sessions that an agent has stored on this machine. */
export function findSessions(
  agent: SessionAgent,
  places: SessionPlaces,
): AsyncIterable<StoredSession | UnreadableSession> {
  return readers[agent](places)
}
