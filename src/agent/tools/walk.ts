import { relative, sep } from 'node:path'
import * as z from 'zod'
import { startWorkerThread } from '../../worker-thread/worker-thread.ts'
import type { ConfinedFolder } from './confined-folder.ts'
import { confined } from './files.ts'
import { defineTool, type Tool, ToolError } from './tool.ts'
import type { WalkResult, WalkTask } from './walk-thread.ts'

const MAX_ENTRIES = 1000
const MAX_MATCHES = 300
const MAX_MS = 20_000

/** The tools that list and search files. */
export function walkTools(files: ConfinedFolder): Tool[] {
  return [listFiles(files), searchFiles(files)]
}

const folder = z.string().default('.').describe('A folder in the workspace; default: the workspace itself')
const glob = z.string().optional().describe('Only files that match this glob, such as *.ts or src/**/*.md')

function listFiles(files: ConfinedFolder): Tool {
  return defineTool({
    name: 'list_files',
    description: `Lists a folder, at most ${MAX_ENTRIES} entries. Folders end in a slash.`,
    effects: { isRepeatable: true, files: 'none' },
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
    effects: { isRepeatable: true, files: 'none' },
    args: z.object({ pattern: z.string().min(1), path: folder, glob }),
    async run({ pattern, path, glob: wanted }, { signal }) {
      assertPattern(pattern)
      const task = { recursive: true, most: MAX_MATCHES, pattern, glob: wanted ?? null }
      return { output: shown(await walk(files, path, task, signal), 'No matches.') }
    },
  })
}

function assertPattern(pattern: string): void {
  try {
    void new RegExp(pattern, 'u')
  } catch (error) {
    throw new ToolError(`The pattern is not valid: ${(error as Error).message}`)
  }
}

function shown({ lines, isCut }: WalkResult, nothing: string): string {
  if (lines.length === 0) return nothing
  return lines.join('\n') + (isCut ? '\n[more results omitted; narrow the path or the pattern]' : '')
}

async function walk(
  files: ConfinedFolder,
  path: string,
  task: Omit<WalkTask, 'root' | 'dataDir' | 'parts'>,
  signal: AbortSignal,
): Promise<WalkResult> {
  const parts = await confined(partsOf(files, path))
  let isLate = false
  const thread = startWorkerThread<WalkTask, WalkResult>({
    module: './walk-thread',
    from: import.meta.url,
    worker: { env: {} },
    asError: ({ message }) => new ToolError(`The files could not be read: ${message}`),
    asEnd: (why, cause) =>
      new ToolError(
        isLate
          ? `This took longer than ${MAX_MS / 1000} s; narrow it down.`
          : `The files could not be read: ${cause?.message ?? why}`,
      ),
  })
  const timer = setTimeout(() => {
    isLate = true
    void thread.terminate()
  }, MAX_MS)
  const stop = () => void thread.terminate()
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await thread.call({ ...task, root: files.root, dataDir: files.dataDir, parts })
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
    void thread.terminate()
  }
}

/** The parts of the folder's real path from the root. */
async function partsOf(files: ConfinedFolder, path: string): Promise<string[]> {
  const handle = await files.folder(path)
  try {
    return relative(files.root, handle.path).split(sep).filter(Boolean)
  } finally {
    await handle.close()
  }
}
