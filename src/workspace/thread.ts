import { parentPort, workerData } from 'node:worker_threads'
import type { RestoreReport } from './file-operations.ts'
import { copyFolder } from './repository.ts'
import { openSharedObjects } from './shared-objects.ts'
import { openWorkspace, type Workspace, type WorkspaceOptions } from './workspace.ts'

/** A thread of its own for the workspace: reading a hundred thousand files must not stop the event loop. */
export type ThreadOptions = Omit<WorkspaceOptions, 'onProgress' | 'onRescued' | 'onPlanned' | 'copy'>

export interface ThreadRequest {
  id: number
  /** The conversation whose working copy is meant; null for the project itself. */
  copy: string | null
  call: string
  args: unknown[]
}

/** The answer to a `confirm`: whether the operation may go on. */
export interface ThreadConfirmation {
  confirmed: number
  error: string | null
}

export type ThreadReply =
  | { id: number; result: unknown }
  | { id: number; error: { message: string; name: string; code: string | undefined } }
  /** The operation waits for the caller's consent, while the workspace is locked. */
  | { confirm: number; with: unknown }
  | { progress: number }
  | { rescued: RestoreReport['rescued'] }

/** How many working copies are kept in memory, besides the project: the others are read again when they are needed. */
const MAX_OPEN = 8

class NotConfirmed extends Error {}

const port = parentPort
if (!port) throw new Error('this file runs as a thread')

const options: WorkspaceOptions = {
  ...(workerData as ThreadOptions),
  onProgress: (progress) => port.postMessage({ progress } satisfies ThreadReply),
  onRescued: (rescued) => port.postMessage({ rescued } satisfies ThreadReply),
}
const waitingForConsent = new Map<number, { resolve(): void; reject(error: Error): void }>()
const shared = openSharedObjects(options)
const project = openWorkspace(options, shared)
const copies = new Map<string, Promise<Workspace>>()

function workspaceOf(copy: string | null): Promise<Workspace> {
  if (copy === null) return Promise.resolve(project)
  const workspace = copies.get(copy) ?? openCopy(copy)
  // The last used is the last in the list.
  copies.delete(copy)
  copies.set(copy, workspace)
  for (const [oldest, idle] of copies) {
    if (copies.size <= MAX_OPEN) break
    copies.delete(oldest)
    void close(idle)
  }
  return workspace
}

/** In its turn: opening writes to the manifest, whose lock is held in this same thread. */
function openCopy(copy: string): Promise<Workspace> {
  const root = copyFolder(options.dataDir, copy)
  // A copy lies in the data folder, so all processes that work on it share that folder's lock.
  const workspace = shared.inTurn(async () =>
    openWorkspace({ ...options, root, copy, rootLock: undefined }, shared),
  )
  // One that could not be opened is tried again.
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

/** Functions don't cross threads: the caller of this request is asked instead. */
function confirmBy(id: number): (given: unknown) => Promise<void> {
  return (given) =>
    new Promise((resolve, reject) => {
      waitingForConsent.set(id, { resolve, reject })
      port?.postMessage({ confirm: id, with: given } satisfies ThreadReply)
    })
}

function confirmed({ confirmed: id, error }: ThreadConfirmation): void {
  const waiter = waitingForConsent.get(id)
  waitingForConsent.delete(id)
  if (error === null) waiter?.resolve()
  else waiter?.reject(new NotConfirmed(error))
}

async function perform({ id, copy, call, args }: ThreadRequest): Promise<unknown> {
  if (call === 'close') return await closeAll()
  const workspace = await workspaceOf(copy)
  const operation = workspace[call as keyof Workspace] as (...given: unknown[]) => Promise<unknown>
  const result = await operation(...args, ...(call === 'edit' ? [confirmBy(id)] : []))
  if (call !== 'discard' || copy === null) return result
  copies.delete(copy)
  await workspace.close()
}

async function answer(request: ThreadRequest): Promise<void> {
  const { id } = request
  try {
    port?.postMessage({ id, result: await perform(request) } satisfies ThreadReply)
  } catch (error) {
    const { message, name, constructor, code } = error as NodeJS.ErrnoException
    const reply = { message, name: constructor?.name ?? name, code }
    port?.postMessage({ id, error: reply } satisfies ThreadReply)
  }
  if (request.call === 'close') port?.close()
}

port.on('message', (message: ThreadRequest | ThreadConfirmation) => {
  if ('confirmed' in message) confirmed(message)
  else void answer(message)
})
