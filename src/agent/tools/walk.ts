import { relative, sep } from 'node:path'
import { Worker } from 'node:worker_threads'
import * as z from 'zod'
import type { ConfinedFolder } from './confined-folder.ts'
import { confined } from './files.ts'
import { defineTool, type Tool, ToolError } from './tool.ts'
import type { WalkResult, WalkTask } from './walk-thread.ts'

const MAX_ENTRIES = 1000
const MAX_MATCHES = 300
const MAX_MS = 20_000

/** The tools that look at many files. */
export function walkTools(files: ConfinedFolder): Tool[] {
  return [listFiles(files), searchFiles(files)]
}

const folder = z.string().default('.').describe('A folder in the workspace; default: the workspace itself')
const glob = z.string().optional().describe('Only files like this, such as *.ts or src/**/*.md')

function listFiles(files: ConfinedFolder): Tool {
  return defineTool({
    name: 'list_files',
    description: `Lists a folder, at most ${MAX_ENTRIES} entries. Folders end in a slash.`,
    isReadOnly: true,
    args: z.object({ path: folder, recursive: z.boolean().default(false), glob }),
    async run({ path, recursive, glob: wanted }, { signal }) {
      const task = { recursive, most: MAX_ENTRIES, pattern: null, glob: wanted ?? null }
      return { output: shown(await walk(files, path, task, signal), 'The folder is empty.') }
    },
  })
}

function searchFiles(files: ConfinedFolder): Tool {
  return defineTool({
    name: 'search_files',
    description: `Searches files line by line with a regular expression (JavaScript), at most ${MAX_MATCHES} lines.`,
    isReadOnly: true,
    args: z.object({ pattern: z.string().min(1), path: folder, glob }),
    async run({ pattern, path, glob: wanted }, { signal }) {
      assertPattern(pattern)
      const task = { recursive: true, most: MAX_MATCHES, pattern, glob: wanted ?? null }
      return { output: shown(await walk(files, path, task, signal), 'Nothing was found.') }
    },
  })
}

function assertPattern(pattern: string): void {
  try {
    void new RegExp(pattern, 'u')
  } catch (error) {
    throw new ToolError(`That is no regular expression: ${(error as Error).message}`)
  }
}

function shown({ lines, isCut }: WalkResult, nothing: string): string {
  if (lines.length === 0) return nothing
  return lines.join('\n') + (isCut ? '\n[there is more; look at a part of it]' : '')
}

async function walk(
  files: ConfinedFolder,
  path: string,
  task: Omit<WalkTask, 'root' | 'dataDir' | 'parts'>,
  signal: AbortSignal,
): Promise<WalkResult> {
  const parts = await confined(partsOf(files, path))
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const worker = new Worker(new URL(`./walk-thread.${extension}`, import.meta.url), {
    workerData: { ...task, root: files.root, dataDir: files.dataDir, parts } satisfies WalkTask,
    env: {},
  })
  const stop = () => void worker.terminate()
  const timer = setTimeout(stop, MAX_MS)
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await new Promise((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', (error) => reject(new ToolError(`That failed: ${(error as Error).message}`)))
      worker.once('exit', () => {
        reject(signal.aborted ? signal.reason : new ToolError(`That took longer than ${MAX_MS / 1000} s.`))
      })
    })
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    void worker.terminate()
  }
}

/** Where the folder really is, from the root. */
async function partsOf(files: ConfinedFolder, path: string): Promise<string[]> {
  const handle = await files.folder(path)
  try {
    return relative(files.root, handle.path).split(sep).filter(Boolean)
  } finally {
    await handle.close()
  }
}
