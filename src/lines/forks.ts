import type { Clock } from '../core/clock.ts'
import type { Forked, ForkRequest, Forks } from '../core/forks.ts'
import type { ForkCommand, Ledger } from '../core/ledger.ts'
import type { WorkSessions } from '../core/work-sessions.ts'
import type { Restored } from '../protocol/api/work.ts'
import { type ConversationId, newId } from '../protocol/ids.ts'

export interface ForksDependencies {
  ledger: Pick<Ledger, 'conversation' | 'fork' | 'forkedBefore' | 'checkpointAt'>
  sessions: Pick<WorkSessions, 'start' | 'restore' | 'makeCopy' | 'isHere'>
  clock: Clock
  /** The project's workspace id. */
  workspaceId: string
}

export function createForks({ ledger, sessions, clock, workspaceId }: ForksDependencies): Forks {
  async function fork(request: ForkRequest): Promise<Forked> {
    const { tenant, conversationId, at, title, files, idempotency, by } = request
    const earlier = idempotency && (await ledger.forkedBefore(tenant, idempotency))
    if (earlier) return { conversation: earlier, repeated: true, restored: null }
    const now = clock.now()
    const { workspace_id } = await ledger.conversation(tenant, conversationId)
    const command: ForkCommand = {
      tenant,
      by,
      conversationId,
      at,
      newConversationId: newId('conv', now),
      newSegmentId: newId('seg', now),
      // A conversation without files, such as an imported one, is continued in a fork that has the project's.
      ...(workspace_id === null ? { workspaceId } : {}),
      ...(title === undefined ? {} : { title }),
      ...(idempotency ? { idempotency } : {}),
    }
    if (files === 'copy') return await withCopy(command)
    const restored = files === 'restore' ? await restore(request) : null
    return { ...(await ledger.fork(command)), restored }
  }

  /** Restores for the parent conversation: the current files become a checkpoint of the parent. */
  async function restore({ tenant, conversationId, at, by }: ForkRequest): Promise<Restored | null> {
    const { checkpointId } = await ledger.checkpointAt(tenant, conversationId, at)
    // The files have not changed since.
    if (checkpointId === null) return null
    return await sessions.restore({ tenant, conversationId, by, checkpointId, paths: null, dryRun: false })
  }

  async function withCopy(command: ForkCommand): Promise<Forked> {
    const { tenant, conversationId: from, at, newConversationId: conversationId } = command
    const { checkpointId } = await ledger.checkpointAt(tenant, from, at)
    const copy = await sessions.makeCopy({ tenant, from, checkpointId, conversationId })
    try {
      const forked = await ledger.fork({ ...command, workspaceId: copy.workspaceId })
      await (forked.repeated ? copy.drop() : copy.keep())
      return { ...forked, restored: null }
    } catch (error) {
      await copy.drop()
      throw error
    }
  }

  /** Takes the first checkpoint (W1) in the background; a message sent meanwhile waits for it. */
  function begin(tenant: string, { conversation, repeated }: Forked): void {
    const { id, workspace_id } = conversation
    if (repeated || workspace_id === null || !sessions.isHere(workspace_id)) return
    void sessions.start(tenant, id as ConversationId)
  }

  return {
    async fork(request) {
      const forked = await fork(request)
      begin(request.tenant, forked)
      return forked
    },
  }
}
