import { parentPort, workerData } from 'node:worker_threads'
import { openWorkspace, type WorkspaceOptions } from './workspace.ts'

/** A thread of its own for the workspace: reading a hundred thousand files must not stop the event loop. */
export type ThreadOptions = Omit<WorkspaceOptions, 'onProgress' | 'onPlanned'>

export interface ThreadRequest {
  id: number
  call: string
  args: unknown[]
}

export type ThreadReply =
  | { id: number; result: unknown }
  | { id: number; error: { message: string; name: string } }
  | { progress: number }

const port = parentPort
if (!port) throw new Error('this file runs as a thread')

const workspace = openWorkspace({
  ...(workerData as ThreadOptions),
  onProgress: (progress) => port.postMessage({ progress } satisfies ThreadReply),
})

async function answer({ id, call, args }: ThreadRequest): Promise<void> {
  try {
    const operation = workspace[call as keyof typeof workspace] as (...given: unknown[]) => Promise<unknown>
    const result = await operation(...args)
    port?.postMessage({ id, result } satisfies ThreadReply)
  } catch (error) {
    const { message, name, constructor } = error as Error
    port?.postMessage({ id, error: { message, name: constructor?.name ?? name } } satisfies ThreadReply)
  }
  if (call === 'close') port?.close()
}

port.on('message', (request: ThreadRequest) => void answer(request))
