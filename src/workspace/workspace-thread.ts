import { Worker } from 'node:worker_threads'
import { TooLargeToKeep } from './known-files.ts'
import type { ThreadOptions, ThreadReply, ThreadRequest } from './thread.ts'
import type { Workspace } from './workspace.ts'

/** A snapshot, a comparison or a restore could not be done, and why (W7). */
export class WorkspaceFailed extends Error {}

interface Waiter {
  resolve(result: unknown): void
  reject(error: Error): void
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
  'differences',
  'diff',
  'files',
  'file',
  'leftOut',
  'countSince',
  'has',
  'hashes',
  'beforeWrite',
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
  onProgress: (files: number) => void = () => {},
): WorkspaceThread {
  let thread: Thread | null = null
  let isClosed = false

  function call(copy: string | null, name: string, args: unknown[]): Promise<unknown> {
    if (isClosed) return Promise.reject(new WorkspaceFailed('the workspace is closed'))
    if (!thread || thread.hasEnded()) thread = startThread(options, onProgress)
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

function startThread(options: ThreadOptions, onProgress: (files: number) => void): Thread {
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

  worker.on('message', (reply: ThreadReply) => {
    if ('progress' in reply) return onProgress(reply.progress)
    const waiter = waiters.get(reply.id)
    waiters.delete(reply.id)
    if ('error' in reply) waiter?.reject(asError(reply.error))
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
        waiters.set(id, { resolve, reject })
        worker.postMessage({ id, copy, call: name, args } satisfies ThreadRequest)
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

function asError({ message, name }: { message: string; name: string }): Error {
  return name === TooLargeToKeep.name ? new TooLargeToKeep(message) : new WorkspaceFailed(message)
}
