import { Worker } from 'node:worker_threads'
import type { RestoreReport } from './file-operations.ts'
import { TooLargeToKeep } from './known-files.ts'
import { DiskFull } from './restore.ts'
import type { ThreadConfirmation, ThreadOptions, ThreadReply, ThreadRequest } from './thread.ts'
import type { Workspace } from './workspace.ts'

/** A snapshot, a comparison or a restore could not be done, and why (W7). */
export class WorkspaceFailed extends Error {}

interface Waiter {
  resolve(result: unknown): void
  reject(error: Error): void
  confirm: ((given: unknown) => Promise<void>) | null
  /** Why the caller did not consent: that is the error of the call. */
  refusal?: Error
}

export interface ThreadListeners {
  onProgress?(files: number): void
  onRescued?(files: RestoreReport['rescued']): void
}

interface Thread {
  call(copy: string | null, name: string, args: unknown[]): Promise<unknown>
  hasEnded(): boolean
  end(): Promise<void>
}

const calls = [
  'lookAhead',
  'checkpoint',
  'merge',
  'preview',
  'restore',
  'undo',
  'unknownPaths',
  'writeBundle',
  'readBundle',
  'differences',
  'diff',
  'files',
  'file',
  'leftOut',
  'countSince',
  'has',
  'hashes',
  'edit',
  'verifyWatching',
  'tidy',
  'collect',
  'adopt',
  'discard',
  'condition',
] as const satisfies (keyof Workspace)[]

/** The project's workspace, and with it the working copies of its conversations. */
export interface WorkspaceThread extends Workspace {
  copy(conversationId: string): Workspace
}

/** The workspaces in their thread, which starts with the first call, and again should it have ended. */
export function openWorkspaceThread(
  options: ThreadOptions,
  listeners: ThreadListeners = {},
): WorkspaceThread {
  let thread: Thread | null = null
  let isClosed = false

  function call(copy: string | null, name: string, args: unknown[]): Promise<unknown> {
    if (isClosed) return Promise.reject(new WorkspaceFailed('the workspace is closed'))
    if (!thread || thread.hasEnded()) thread = startThread(options, listeners)
    return thread.call(copy, name, args)
  }

  const operationsOf = (copy: string | null) =>
    Object.fromEntries(
      calls.map((name) => [name, (...args: unknown[]) => call(copy, name, args)]),
    ) as unknown as Pick<Workspace, (typeof calls)[number]>
  return {
    ...operationsOf(null),
    // The thread sees to closing it.
    copy: (conversationId) => ({ ...operationsOf(conversationId), close: () => Promise.resolve() }),
    async close() {
      isClosed = true
      await thread?.end()
    },
  }
}

function startThread(options: ThreadOptions, listeners: ThreadListeners): Thread {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const worker = new Worker(new URL(`./thread.${extension}`, import.meta.url), { workerData: options })
  // A server that has nothing else to do may end.
  worker.unref()
  const waiters = new Map<number, Waiter>()
  let lastId = 0
  let ended: Error | null = null

  function end(error: Error): void {
    ended ??= error
    for (const waiter of waiters.values()) waiter.reject(ended)
    waiters.clear()
  }

  async function confirm(id: number, given: unknown): Promise<void> {
    const waiter = waiters.get(id)
    const error = await Promise.resolve(waiter?.confirm?.(given)).then(
      () => null,
      (why: unknown) => why as Error,
    )
    if (waiter && error) waiter.refusal = error
    const message = { confirmed: id, error: error?.message ?? null }
    worker.postMessage(message satisfies ThreadConfirmation)
  }

  worker.on('message', (reply: ThreadReply) => {
    if ('progress' in reply) return listeners.onProgress?.(reply.progress)
    if ('rescued' in reply) return listeners.onRescued?.(reply.rescued)
    if ('confirm' in reply) return void confirm(reply.confirm, reply.with)
    const waiter = waiters.get(reply.id)
    waiters.delete(reply.id)
    if ('error' in reply) waiter?.reject(waiter.refusal ?? asError(reply.error))
    else waiter?.resolve(reply.result)
  })
  worker.on('error', (error) => end(new WorkspaceFailed(`the workspace failed: ${(error as Error).message}`)))
  const exited = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      end(new WorkspaceFailed('the workspace has ended'))
      resolve()
    })
  })

  return {
    call: (copy, name, args) =>
      new Promise((resolve, reject) => {
        if (ended) return reject(ended)
        const id = ++lastId
        const last = args.at(-1)
        const confirm = typeof last === 'function' ? (last as Waiter['confirm']) : null
        waiters.set(id, { resolve, reject, confirm })
        const sent = confirm ? args.slice(0, -1) : args
        worker.postMessage({ id, copy, call: name, args: sent } satisfies ThreadRequest)
      }),
    hasEnded: () => ended !== null,
    async end() {
      if (ended) return
      worker.ref()
      worker.postMessage({ id: ++lastId, copy: null, call: 'close', args: [] } satisfies ThreadRequest)
      await exited
    },
  }
}

function asError({
  message,
  name,
  code,
}: {
  message: string
  name: string
  code: string | undefined
}): Error {
  if (name === TooLargeToKeep.name) return new TooLargeToKeep(message)
  if (name === DiskFull.name) return new DiskFull()
  return Object.assign(new WorkspaceFailed(message), code === undefined ? {} : { code })
}
