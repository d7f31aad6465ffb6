import { startWorkerThread } from '../worker-thread/worker-thread.ts'
import { BlameTooSlow } from './blame.ts'
import type { RestoreReport } from './file-operations.ts'
import { TooLargeToKeep } from './known-files.ts'
import { DiskFull, isDiskFull } from './restore.ts'
import type { ThreadNotice, ThreadOptions, ThreadRequest } from './thread.ts'
import type { Workspace } from './workspace.ts'

/** A snapshot, a comparison or a restore failed; the message says why (W7). */
export class WorkspaceFailed extends Error {}

export interface ThreadListeners {
  onProgress?(files: number): void
  onRescued?(files: RestoreReport['rescued']): void
}

const calls = [
  'lookAhead',
  'checkpoint',
  'merge',
  'mergeFrom',
  'preview',
  'restore',
  'undo',
  'unknownPaths',
  'occupied',
  'writeBundle',
  'readBundle',
  'differences',
  'diff',
  'files',
  'file',
  'earlierPaths',
  'blame',
  'approvedFiles',
  'leftOut',
  'countSince',
  'has',
  'hashes',
  'changeTimes',
  'edit',
  'verifyWatching',
  'tidy',
  'collect',
  'adopt',
  'discard',
  'condition',
] as const satisfies (keyof Workspace)[]

/** The project's workspace and the working copies of its conversations. */
export interface WorkspaceThread extends Workspace {
  copy(conversationId: string): Workspace
}

/** Runs the workspaces in a thread, which starts with the first call and restarts if it has ended. */
export function openWorkspaceThread(
  options: ThreadOptions,
  listeners: ThreadListeners = {},
): WorkspaceThread {
  let thread: ReturnType<typeof startThread> | null = null
  let isClosed = false

  function call(copy: string | null, name: string, args: unknown[]): Promise<unknown> {
    if (isClosed) return Promise.reject(new WorkspaceFailed('the workspace is closed'))
    if (!thread || thread.hasEnded()) thread = startThread(options, listeners)
    // The last argument of a call may be a function that confirms it.
    const last = args.at(-1)
    const confirm = typeof last === 'function' ? (last as (given: unknown) => Promise<void>) : null
    return thread.call({ copy, call: name, args: confirm ? args.slice(0, -1) : args }, confirm)
  }

  const operationsOf = (copy: string | null) =>
    Object.fromEntries(
      calls.map((name) => [name, (...args: unknown[]) => call(copy, name, args)]),
    ) as unknown as Pick<Workspace, (typeof calls)[number]>
  return {
    ...operationsOf(null),
    // The thread closes it.
    copy: (conversationId) => ({ ...operationsOf(conversationId), close: () => Promise.resolve() }),
    async close() {
      isClosed = true
      await thread?.end({ copy: null, call: 'close', args: [] })
    },
  }
}

function startThread(options: ThreadOptions, { onProgress, onRescued }: ThreadListeners) {
  return startWorkerThread<ThreadRequest, unknown, ThreadNotice>({
    module: './thread',
    from: import.meta.url,
    worker: { workerData: options },
    isBackground: true,
    onNotice(notice) {
      if ('progress' in notice) onProgress?.(notice.progress)
      else onRescued?.(notice.rescued)
    },
    asError,
    asEnd: (why, cause) => new WorkspaceFailed(`the workspace: ${cause?.message ?? why}`),
  })
}

function asError({
  message,
  name,
  code,
}: {
  message: string
  name: string
  code?: string | undefined
}): Error {
  if (name === TooLargeToKeep.name) return new TooLargeToKeep(message)
  if (name === BlameTooSlow.name) return new BlameTooSlow()
  // A restore that fails for want of room has touched nothing, or was rolled back in the thread.
  if (name === DiskFull.name || isDiskFull({ code })) return new DiskFull()
  return Object.assign(new WorkspaceFailed(message), code === undefined ? {} : { code })
}
