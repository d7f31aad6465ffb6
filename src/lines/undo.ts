import type { Deletions } from '../core/deletions.ts'
import type { Ledger } from '../core/ledger.ts'
import type { ChangedSettings, Operation, Operations, Undoing } from '../core/operations.ts'
import { createTurns } from '../core/turns.ts'
import type { UndoCommand, UndoRedo } from '../core/undo-redo.ts'
import type { WorkSessions } from '../core/work-sessions.ts'
import type { OperationKind, OperationView, Undone } from '../protocol/api/operations.ts'
import { type ErrorCode, WaymarkError } from '../protocol/errors.ts'
import type { ConversationId } from '../protocol/ids.ts'

export interface UndoDependencies {
  operations: Operations
  ledger: Pick<Ledger, 'change' | 'presence' | 'assertCanUndelete'>
  deletions: Deletions
  sessions: Pick<
    WorkSessions,
    'restore' | 'approveAgain' | 'approvedState' | 'changedBetween' | 'checkpoint' | 'occupied'
  >
}

/** Operations of one conversation that are looked through for later changes. */
const MOST_LATER = 500
const OCCUPIED = 'a folder with other files is in its place'

interface Command {
  tenant: string
  by: string
  conversationId: ConversationId
  undoing: Undoing
}

/** The result of the change. Stopping a conversation returns its queued messages, a restore the files that it skipped. */
type Done = object | null

type Skipped = Undone['skipped']

/**
 * How to undo and redo an operation. Each makes an ordinary change; because of `undoing`, the log marks the operation instead of
 * adding one. If another operation has already made the change, nothing changes, and `move` marks the operation.
 */
interface Way {
  summary(operation: Operation): string
  undo(command: Command, operation: Operation): Promise<Done>
  redo(command: Command, operation: Operation): Promise<Done>
  /** Throws if it is no longer possible, although its conversation exists. */
  check?(operation: Operation, tenant: string): Promise<unknown>
}

export function createUndoRedo(deps: UndoDependencies): UndoRedo {
  const { operations, ledger, deletions, sessions } = deps
  const turns = createTurns()

  const messageOf = ({ details }: Operation) => details.message_id ?? ''

  /** Restores the files that the operation has changed, as they were before or after it. */
  async function restoreFiles(command: Command, operation: Operation, to: 'before' | 'after') {
    const { tenant, conversationId } = command
    const { safety_checkpoint: before = '', new_checkpoint: after } = operation.details
    const paths =
      operation.details.paths ??
      (await sessions.changedBetween(tenant, conversationId, before, after ?? before))
    const checkpointId = to === 'before' ? before : (after ?? before)
    // Operations name files. If a folder has taken the place of one, its files stay.
    const occupied = new Set(await sessions.occupied(tenant, conversationId, paths))
    const skipped = [...occupied].map((path) => ({ path, reason: OCCUPIED }))
    const rest = paths.filter((path) => !occupied.has(path))
    return { skipped: [...skipped, ...(await restorePaths(command, checkpointId, rest))] }
  }

  /** Retries without paths that neither the checkpoint nor the project has: there is nothing to restore. */
  async function restorePaths(
    command: Command,
    checkpointId: string,
    paths: readonly string[],
  ): Promise<Skipped> {
    if (paths.length === 0) return []
    try {
      return (await sessions.restore({ ...command, checkpointId, paths: [...paths], dryRun: false })).skipped
    } catch (error) {
      const unknown = error instanceof WaymarkError ? error.details.map(({ message }) => message) : []
      const rest = paths.filter((path) => !unknown.includes(path))
      if (rest.length === paths.length) throw error
      return await restorePaths(command, checkpointId, rest)
    }
  }

  const filesWay = (summary: string): Way => ({
    summary: () => summary,
    undo: (command, operation) => restoreFiles(command, operation, 'before'),
    redo: (command, operation) => restoreFiles(command, operation, 'after'),
    async check({ conversationId, details, isUndone }, tenant) {
      const { safety_checkpoint: before = '', new_checkpoint: after } = details
      await sessions.checkpoint(tenant, conversationId, isUndone ? (after ?? before) : before)
    },
  })

  async function change(command: Command, values: Operation['details']['before']): Promise<null> {
    const { tenant, conversationId, by, undoing } = command
    const { settings = {}, title } = values ?? {}
    await ledger.change(tenant, conversationId, {
      settings,
      // An empty title is none.
      ...(title === undefined ? {} : { title: title ?? '' }),
      by,
      undoing,
    })
    return null
  }

  /** Leaves alone what a later change, which is still in effect, has set. */
  async function changeTo(
    command: Command,
    operation: Operation,
    values: ChangedSettings = { settings: {} },
  ) {
    const { tenant, conversationId } = command
    const { items } = await operations.list({ tenant, conversationId, before: null, limit: MOST_LATER })
    const later = items
      .filter(({ no, kind, isUndone }) => no > operation.no && kind === 'conversation.changed' && !isUndone)
      .flatMap(({ details }) => details.after ?? [])
    const isKept = (name: string) => later.some(({ settings }) => Object.hasOwn(settings, name))
    const settings = Object.fromEntries(Object.entries(values.settings).filter(([name]) => !isKept(name)))
    const isTitleKept = later.some(({ title }) => title !== undefined)
    const { title } = values
    return await change(command, { settings, ...(title === undefined || isTitleKept ? {} : { title }) })
  }

  const deleteMessage = (command: Command, messageId: string) =>
    nullIf('message_not_found', deletions.deleteMessage({ ...command, messageId }))
  const undeleteMessage = (command: Command, messageId: string) =>
    nullIf('message_not_deleted', deletions.undeleteMessage({ ...command, messageId }))
  const undeleteConversation = (command: Command, conversationId = command.conversationId) =>
    nullIf('message_not_deleted', deletions.undeleteConversation({ ...command, conversationId }))

  async function deleteConversation(command: Command, conversationId = command.conversationId) {
    if ((await ledger.presence(command.tenant, conversationId)) === 'deleted') return null
    return await deletions.deleteConversation({ ...command, conversationId })
  }

  /** Leaves a later approval in effect, also one by another conversation of the workspace. */
  async function approve(command: Command, { from, to }: { from: string | null | undefined; to: string }) {
    const { tenant, conversationId } = command
    if ((await sessions.approvedState(tenant, conversationId)) !== from) return null
    return await sessions.approveAgain({ ...command, approved: to })
  }

  const ways: Record<OperationKind, Way> = {
    'message.deleted': {
      summary: () => 'Deleted a message and all after it',
      undo: (command, operation) => undeleteMessage(command, messageOf(operation)),
      redo: (command, operation) =>
        // Returns to the line as it was left: it may have messages that were sent after the deletion.
        operation.details.redo_message_id === undefined
          ? deleteMessage(command, messageOf(operation))
          : undeleteMessage(command, operation.details.redo_message_id),
      async check({ conversationId, details, isUndone }, tenant) {
        const left = isUndone ? details.redo_message_id : details.message_id
        if (left !== undefined)
          await nullIf('message_not_deleted', ledger.assertCanUndelete(tenant, conversationId, left))
      },
    },
    'message.undeleted': {
      summary: () => 'Undeleted a message',
      undo: (command, operation) => {
        const left = operation.details.left_message_id
        if (left) return undeleteMessage(command, left)
        return deleteMessage(command, messageOf(operation))
      },
      redo: (command, operation) =>
        undeleteMessage(command, operation.details.redo_message_id ?? messageOf(operation)),
    },
    'conversation.deleted': {
      summary: () => 'Deleted the conversation',
      undo: (command) => undeleteConversation(command),
      redo: (command) => deleteConversation(command),
    },
    'conversation.undeleted': {
      summary: () => 'Undeleted the conversation',
      undo: (command) => deleteConversation(command),
      redo: (command) => undeleteConversation(command),
    },
    'conversation.changed': {
      summary: ({ details }) => {
        const names = Object.keys(details.after?.settings ?? {})
        const title = details.after?.title
        const renamed = title === undefined ? [] : [`Renamed to “${title}”`]
        return (
          [...renamed, ...(names.length > 0 ? [`Changed ${names.join(', ')}`] : [])].join('; ') ||
          'Changed the conversation'
        )
      },
      undo: (command, operation) => changeTo(command, operation, operation.details.before),
      redo: (command, operation) => changeTo(command, operation, operation.details.after),
    },
    'conversation.forked': {
      summary: ({ details }) => (details.fork_id === undefined ? 'Forked' : `Forked as ${details.fork_id}`),
      undo: (command, { details }) => deleteConversation(command, details.fork_id as ConversationId),
      redo: (command, { details }) => undeleteConversation(command, details.fork_id as ConversationId),
    },
    'files.restored': filesWay('Restored files'),
    'files.reset': filesWay('Reset the files to the last approval'),
    'files.adopted': filesWay('Adopted the files of a fork'),
    'files.approved': {
      summary: () => 'Approved the files',
      undo: (command, { details }) => {
        if (!details.approved_before) throw nothingApprovedBefore()
        return approve(command, { from: details.approved_commit, to: details.approved_before })
      },
      redo: (command, { details }) =>
        approve(command, { from: details.approved_before, to: details.approved_commit ?? '' }),
      async check({ details, isUndone }) {
        if (!isUndone && !details.approved_before) throw nothingApprovedBefore()
      },
    },
  }

  async function view(operation: Operation, tenant: string): Promise<OperationView> {
    const { no, at, by, kind, conversationId, isUndone } = operation
    return {
      operation: no,
      at,
      by,
      kind,
      conversation_id: conversationId,
      is_undone: isUndone,
      summary: ways[kind].summary(operation),
      problem: await problemOf(operation, tenant),
    }
  }

  /** Why it can't be undone, or redone, any more. */
  async function problemOf(operation: Operation, tenant: string): Promise<string | null> {
    const { kind, conversationId, details } = operation
    const presence = await ledger.presence(tenant, (details.fork_id as ConversationId) ?? conversationId)
    if (presence === 'gone') return 'The conversation was deleted permanently.'
    // Undoing or redoing another operation brings it back first.
    if (presence === 'deleted') return null
    try {
      await ways[kind].check?.(operation, tenant)
      return null
    } catch (error) {
      if (error instanceof WaymarkError) return error.message
      throw error
    }
  }

  /** One at a time: two requests must not undo the same operation. */
  const inTurn = (what: 'undo' | 'redo', command: UndoCommand) =>
    turns(command.tenant, () => move(what, command))

  async function move(
    what: 'undo' | 'redo',
    { tenant, by, conversationId, no, mayChangeFiles }: UndoCommand,
  ): Promise<Undone> {
    const operation =
      no === null ? await operations.next(tenant, conversationId, what) : await operations.find(tenant, no)
    if (!operation) {
      const why = no === null ? `There is nothing to ${what}.` : `There is no operation ${no}.`
      throw new WaymarkError('nothing_to_undo', why)
    }
    const isUndo = what === 'undo'
    if (operation.isUndone === isUndo)
      throw new WaymarkError(
        'nothing_to_undo',
        `Operation ${operation.no} is ${isUndo ? 'already' : 'not'} undone.`,
      )
    // A mode or an agent may let calls change files.
    const isOfFiles = operation.kind.startsWith('files.') || operation.kind === 'conversation.changed'
    if (isOfFiles && !mayChangeFiles)
      throw new WaymarkError('missing_scope', 'The token lacks the scope workspace:write.')
    const undoing = { operation: operation.no, isUndone: isUndo }
    const command = { tenant, by, conversationId: operation.conversationId, undoing }
    const done = await carriedOut(what, command, operation, no === null)
    const cleared = done && 'cleared' in done ? (done.cleared as Undone['cleared']) : []
    const skipped = done && 'skipped' in done ? (done.skipped as Skipped) : []
    let moved = (await operations.find(tenant, operation.no)) ?? operation
    if (moved.isUndone !== isUndo) {
      await operations.mark(tenant, undoing)
      moved = { ...moved, isUndone: isUndo }
    }
    return { ...(await view(moved, tenant)), cleared, skipped }
  }

  /** A refusal names the operation: the person may have asked for the last one, whatever it is. */
  async function carriedOut(
    what: 'undo' | 'redo',
    command: Command,
    operation: Operation,
    isLast: boolean,
  ): Promise<Done> {
    const way = ways[operation.kind]
    try {
      return await way[what](command, operation)
    } catch (cause) {
      if (!(cause instanceof WaymarkError)) throw cause
      const { code, message, details } = cause
      const which = `Operation ${operation.no} (${way.summary(operation)})`
      const advice = isLast ? ` To ${what} another operation, give its number.` : ''
      throw new WaymarkError(code, `${which} can't be ${what}ne: ${message}${advice}`, { details, cause })
    }
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

function nothingApprovedBefore(): WaymarkError {
  return new WaymarkError('checkpoint_not_found', 'There is no earlier approval to return to.')
}

/** Returns null if the refusal has this code: another operation has made the change already. */
async function nullIf<T>(code: ErrorCode, changing: Promise<T>): Promise<T | null> {
  try {
    return await changing
  } catch (error) {
    if (error instanceof WaymarkError && error.code === code) return null
    throw error
  }
}
