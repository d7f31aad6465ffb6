import { parentPort, workerData } from 'node:worker_threads'
import { copyFolder } from './repository.ts'
import { openSharedObjects, openWorkspace, type Workspace, type WorkspaceOptions } from './workspace.ts'

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
const copies = new Map<string, Workspace>()

function workspaceOf(copy: string | null): Workspace {
  if (copy === null) return project
  const found = copies.get(copy)
  const workspace =
    found ?? openWorkspace({ ...options, root: copyFolder(options.dataDir, copy), copy }, shared)
  // The last used is the last in the list.
  copies.delete(copy)
  copies.set(copy, workspace)
  for (const [oldest, idle] of copies) {
    if (copies.size <= MAX_OPEN) break
    copies.delete(oldest)
    void idle.close()
  }
  return workspace
}

async function closeAll(): Promise<void> {
  for (const workspace of [...copies.values(), project]) await workspace.close()
  shared.close()
}

async function perform({ copy, call, args }: ThreadRequest): Promise<unknown> {
  if (call === 'close') return await closeAll()
  const workspace = workspaceOf(copy)
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
