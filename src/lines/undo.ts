import type { Deletions } from '../core/deletions.ts'
import type { Ledger } from '../core/ledger.ts'
import type { Operation, Operations, Undoing } from '../core/operations.ts'
import type { UndoCommand, UndoRedo } from '../core/undo-redo.ts'
import type { WorkSessions } from '../core/work-sessions.ts'
import type { OperationKind, OperationView } from '../protocol/api/operations.ts'
import { WaymarkError } from '../protocol/errors.ts'
import type { ConversationId } from '../protocol/ids.ts'

export interface UndoDependencies {
  operations: Operations
  ledger: Pick<Ledger, 'change' | 'conversation' | 'assertCanUndelete'>
  deletions: Deletions
  sessions: Pick<WorkSessions, 'restore' | 'approveAgain' | 'changedBetween' | 'checkpoint'>
}

interface Command {
  tenant: string
  by: string
  conversationId: ConversationId
  undoing: Undoing
}

/** How an operation is undone and done again. Each is a change like any other, which the log notes as this. */
interface Way {
  summary(operation: Operation): string
  undo(command: Command, operation: Operation): Promise<unknown>
  redo(command: Command, operation: Operation): Promise<unknown>
  /** Throws if it is no longer possible. */
  check?(operation: Operation, tenant: string): Promise<unknown>
}

export function createUndoRedo(deps: UndoDependencies): UndoRedo {
  const { operations, ledger, deletions, sessions } = deps
  let turn: Promise<unknown> = Promise.resolve()

  const messageOf = ({ details }: Operation) => details.message_id ?? ''
  const canUndelete = (operation: Operation, tenant: string) =>
    ledger.assertCanUndelete(tenant, operation.conversationId, messageOf(operation))

  /** Restores the files that the operation has changed, as they were before or after it. */
  async function restoreFiles(command: Command, operation: Operation, to: 'before' | 'after'): Promise<void> {
    const { tenant, conversationId } = command
    const { safety_checkpoint: before = '', new_checkpoint: after } = operation.details
    const paths =
      operation.details.paths ??
      (await sessions.changedBetween(tenant, conversationId, before, after ?? before))
    const checkpointId = to === 'before' ? before : (after ?? before)
    await restorePaths(command, checkpointId, paths)
  }

  /** A path that is in neither the checkpoint nor the project is as it should be. */
  async function restorePaths(
    command: Command,
    checkpointId: string,
    paths: readonly string[],
  ): Promise<void> {
    // Nothing is left to change but the note.
    if (paths.length === 0) return await change(command, { settings: {} })
    try {
      await sessions.restore({ ...command, checkpointId, paths: [...paths], dryRun: false })
    } catch (error) {
      const unknown = error instanceof WaymarkError ? error.details.map(({ message }) => message) : []
      const rest = paths.filter((path) => !unknown.includes(path))
      if (rest.length === paths.length) throw error
      await restorePaths(command, checkpointId, rest)
    }
  }

  const filesWay = (summary: string): Way => ({
    summary: () => summary,
    undo: (command, operation) => restoreFiles(command, operation, 'before'),
    redo: (command, operation) => restoreFiles(command, operation, 'after'),
    check: ({ conversationId, details, isUndone }, tenant) =>
      sessions.checkpoint(
        tenant,
        conversationId,
        (isUndone ? details.new_checkpoint : details.safety_checkpoint) ?? details.safety_checkpoint ?? '',
      ),
  })

  async function change(command: Command, values: Operation['details']['before']): Promise<void> {
    const { tenant, conversationId, by, undoing } = command
    const { settings = {}, title } = values ?? {}
    await ledger.change(tenant, conversationId, {
      settings,
      // An empty title is none.
      ...(title === undefined ? {} : { title: title ?? '' }),
      by,
      undoing,
    })
  }

  const ways: Record<OperationKind, Way> = {
    'message.deleted': {
      summary: () => 'Deleted a message and all after it',
      undo: (command, operation) =>
        deletions.undeleteMessage({ ...command, messageId: messageOf(operation) }),
      redo: (command, operation) => deletions.deleteMessage({ ...command, messageId: messageOf(operation) }),
      check: async (operation, tenant) => (operation.isUndone ? null : await canUndelete(operation, tenant)),
    },
    'message.undeleted': {
      summary: () => 'Undeleted a message',
      undo: (command, operation) => {
        const left = operation.details.left_message_id
        if (left) return deletions.undeleteMessage({ ...command, messageId: left })
        return deletions.deleteMessage({ ...command, messageId: messageOf(operation) })
      },
      redo: (command, operation) =>
        deletions.undeleteMessage({ ...command, messageId: messageOf(operation) }),
    },
    'conversation.deleted': {
      summary: () => 'Deleted the conversation',
      undo: (command) => deletions.undeleteConversation(command),
      redo: (command) => deletions.deleteConversation(command),
    },
    'conversation.undeleted': {
      summary: () => 'Undeleted the conversation',
      undo: (command) => deletions.deleteConversation(command),
      redo: (command) => deletions.undeleteConversation(command),
    },
    'conversation.changed': {
      summary: ({ details }) => {
        const names = Object.keys(details.after?.settings ?? {})
        const title = details.after?.title
        const renamed = title === undefined ? [] : [`Renamed to “${title}”`]
        return (
          [...renamed, ...(names.length > 0 ? [`Changed ${names.join(', ')}`] : [])].join('; ') ||
          'Changed nothing'
        )
      },
      undo: (command, { details }) => change(command, details.before),
      redo: (command, { details }) => change(command, details.after),
    },
    'conversation.forked': {
      summary: ({ details }) => `Forked as ${details.fork_id}`,
      undo: (command, { details }) =>
        deletions.deleteConversation({ ...command, conversationId: details.fork_id as ConversationId }),
      redo: (command, { details }) =>
        deletions.undeleteConversation({ ...command, conversationId: details.fork_id as ConversationId }),
    },
    'files.restored': filesWay('Restored files'),
    'files.reset': filesWay('Reset the files to the last approval'),
    'files.adopted': filesWay('Adopted the files of a fork'),
    'files.approved': {
      summary: () => 'Approved the files',
      undo: (command, { details }) => {
        const { approved_before } = details
        if (!approved_before) throw new WaymarkError('checkpoint_not_found', 'Nothing was approved before.')
        return sessions.approveAgain({ ...command, approved: approved_before })
      },
      redo: (command, { details }) =>
        sessions.approveAgain({ ...command, approved: details.approved_commit ?? '' }),
    },
  }

  async function view(operation: Operation, tenant: string): Promise<OperationView> {
    const { no, at, by, kind, conversationId, isUndone } = operation
    const way = ways[kind]
    const problem = await Promise.resolve(way.check?.(operation, tenant)).then(
      () => null,
      (error: unknown) => (error as Error).message,
    )
    return {
      operation: no,
      at,
      by,
      kind,
      conversation_id: conversationId,
      is_undone: isUndone,
      summary: way.summary(operation),
      problem,
    }
  }

  /** One at a time: two requests must not undo the same operation. */
  function inTurn(what: 'undo' | 'redo', command: UndoCommand): Promise<OperationView> {
    const next = turn.then(
      () => move(what, command),
      () => move(what, command),
    )
    turn = next
    return next
  }

  async function move(
    what: 'undo' | 'redo',
    { tenant, by, conversationId, no, mayChangeFiles }: UndoCommand,
  ): Promise<OperationView> {
    const operation =
      no === null ? await operations.next(tenant, conversationId, what) : await operations.find(tenant, no)
    if (!operation) throw new WaymarkError('nothing_to_undo', `There is nothing to ${what}.`)
    const isUndo = what === 'undo'
    if (operation.isUndone === isUndo)
      throw new WaymarkError(
        'nothing_to_undo',
        `Operation ${operation.no} is ${isUndo ? '' : 'not '}undone already.`,
      )
    // A mode or an agent may let calls change files.
    const isOfFiles = operation.kind.startsWith('files.') || operation.kind === 'conversation.changed'
    if (isOfFiles && !mayChangeFiles)
      throw new WaymarkError('missing_scope', 'The token lacks the scope workspace:write.')
    const undoing = { operation: operation.no, isUndone: isUndo }
    const command = { tenant, by, conversationId: operation.conversationId, undoing }
    await ways[operation.kind][what](command, operation)
    return await view({ ...operation, isUndone: isUndo }, tenant)
  }

  return {
    undo: (command) => inTurn('undo', command),
    redo: (command) => inTurn('redo', command),
    async list(query) {
      const { items, next } = await operations.list(query)
      const shown: OperationView[] = []
      for (const operation of items) shown.push(await view(operation, query.tenant))
      return { items: shown, next_cursor: next === null ? null : String(next) }
    },
  }
}
