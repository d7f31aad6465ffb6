import { parentPort, workerData } from 'node:worker_threads'
import type { ThreadAnswer, ThreadQuestion, ThreadReply } from '../worker-thread/worker-thread.ts'
import type { RestoreReport } from './file-operations.ts'
import { copyFolder } from './repository.ts'
import { openSharedObjects } from './shared-objects.ts'
import { openWorkspace, type Workspace, type WorkspaceOptions } from './workspace.ts'

/** Runs the workspace in its own thread: reading a hundred thousand files must not block the event loop. */
export type ThreadOptions = Omit<WorkspaceOptions, 'onProgress' | 'onRescued' | 'onPlanned' | 'copy'>

export interface ThreadRequest {
  /** The conversation whose working copy the call is for; null for the project itself. */
  copy: string | null
  call: string
  args: unknown[]
}

/** Sent without a request. */
export type ThreadNotice = { progress: number } | { rescued: RestoreReport['rescued'] }

type Request = ThreadRequest & { id: number }

/** The number of working copies kept open besides the project; others are reopened on demand. */
const MAX_OPEN = 8

class NotConfirmed extends Error {}

const port = parentPort
if (!port) throw new Error('this file must run as a worker thread')

const options: WorkspaceOptions = {
  ...(workerData as ThreadOptions),
  onProgress: (progress) => port.postMessage({ progress } satisfies ThreadNotice),
  onRescued: (rescued) => port.postMessage({ rescued } satisfies ThreadNotice),
}
const waitingForConsent = new Map<number, { resolve(): void; reject(error: Error): void }>()
const shared = openSharedObjects(options)
const project = openWorkspace(options, shared)
const copies = new Map<string, Promise<Workspace>>()

function workspaceOf(copy: string | null): Promise<Workspace> {
  if (copy === null) return Promise.resolve(project)
  const workspace = copies.get(copy) ?? openCopy(copy)
  // Keep the most recently used copy last.
  copies.delete(copy)
  copies.set(copy, workspace)
  for (const [oldest, idle] of copies) {
    if (copies.size <= MAX_OPEN) break
    copies.delete(oldest)
    void close(idle)
  }
  return workspace
}

/** Waits its turn: opening writes to the manifest, and another operation of this thread may hold its lock. */
function openCopy(copy: string): Promise<Workspace> {
  const root = copyFolder(options.dataDir, copy)
  // A copy is in the data folder, so all processes that work on it share that folder's lock.
  const workspace = shared.inTurn(async () =>
    openWorkspace({ ...options, root, copy, rootLock: undefined }, shared),
  )
  // Forget a copy that failed to open, so that the next call retries.
  workspace.catch(() => copies.delete(copy))
  return workspace
}

async function close(workspace: Promise<Workspace>): Promise<void> {
  await (await workspace.catch(() => null))?.close()
}

async function closeAll(): Promise<void> {
  for (const workspace of copies.values()) await close(workspace)
  await project.close()
  shared.close()
}

/** Functions can't be passed to a thread, so this sends the request's caller a message and waits for the reply. */
function confirmBy(id: number): (given: unknown) => Promise<void> {
  return (given) =>
    new Promise((resolve, reject) => {
      waitingForConsent.set(id, { resolve, reject })
      port?.postMessage({ confirm: id, with: given } satisfies ThreadQuestion)
    })
}

function confirmed({ confirmed: id, error }: ThreadAnswer): void {
  const waiter = waitingForConsent.get(id)
  waitingForConsent.delete(id)
  if (error === null) waiter?.resolve()
  else waiter?.reject(new NotConfirmed(error))
}

async function perform({ id, copy, call, args }: Request): Promise<unknown> {
  if (call === 'close') return await closeAll()
  const workspace = await workspaceOf(copy)
  const operation = workspace[call as keyof Workspace] as (...given: unknown[]) => Promise<unknown>
  const result = await operation(...args, ...(call === 'edit' ? [confirmBy(id)] : []))
  if (call !== 'discard' || copy === null) return result
  copies.delete(copy)
  await workspace.close()
}

async function answer(request: Request): Promise<void> {
  const { id } = request
  try {
    port?.postMessage({ id, result: await perform(request) } satisfies ThreadReply<unknown>)
  } catch (error) {
    const { message, name, constructor, code } = error as NodeJS.ErrnoException
    const reply = { message, name: constructor?.name ?? name, code }
    port?.postMessage({ id, error: reply } satisfies ThreadReply<unknown>)
  }
  if (request.call === 'close') port?.close()
}

port.on('message', (message: Request | ThreadAnswer) => {
  if ('confirmed' in message) confirmed(message)
  else void answer(message)
})
