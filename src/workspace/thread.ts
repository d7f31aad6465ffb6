import { parentPort, workerData } from 'node:worker_threads'
import { copyFolder } from './repository.ts'
import { openSharedObjects } from './shared-objects.ts'
import { openWorkspace, type Workspace, type WorkspaceOptions } from './workspace.ts'

/** A thread of its own for the workspace: reading a hundred thousand files must not stop the event loop. */
export type ThreadOptions = Omit<WorkspaceOptions, 'onProgress' | 'onPlanned' | 'copy'>

export interface ThreadRequest {
  id: number
  /** The conversation whose working copy is meant; null for the project itself. */
  copy: string | null
  call: string
  args: unknown[]
}

export type ThreadReply =
  | { id: number; result: unknown }
  | { id: number; error: { message: string; name: string } }
  | { progress: number }

/** How many working copies are kept in memory, besides the project: the others are read again when they are needed. */
const MAX_OPEN = 8

const port = parentPort
if (!port) throw new Error('this file runs as a thread')

const options: WorkspaceOptions = {
  ...(workerData as ThreadOptions),
  onProgress: (progress) => port.postMessage({ progress } satisfies ThreadReply),
}
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

/** In its turn: it writes to the manifest, and whoever has that locked is in this very thread. */
function openCopy(copy: string): Promise<Workspace> {
  const root = copyFolder(options.dataDir, copy)
  const workspace = shared.inTurn(async () => openWorkspace({ ...options, root, copy }, shared))
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

async function perform({ copy, call, args }: ThreadRequest): Promise<unknown> {
  if (call === 'close') return await closeAll()
  const workspace = await workspaceOf(copy)
  const operation = workspace[call as keyof Workspace] as (...given: unknown[]) => Promise<unknown>
  const result = await operation(...args)
  if (call !== 'discard' || copy === null) return result
  copies.delete(copy)
  await workspace.close()
}

async function answer(request: ThreadRequest): Promise<void> {
  const { id } = request
  try {
    port?.postMessage({ id, result: await perform(request) } satisfies ThreadReply)
  } catch (error) {
    const { message, name, constructor } = error as Error
    port?.postMessage({ id, error: { message, name: constructor?.name ?? name } } satisfies ThreadReply)
  }
  if (request.call === 'close') port?.close()
}

port.on('message', (request: ThreadRequest) => void answer(request))
