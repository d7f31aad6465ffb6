import { hash } from 'node:crypto'
import * as z from 'zod'
import { type ConfinedFolder, type Edited, FileChanged, PathRefused } from './confined-folder.ts'
import { asText, describeEdit } from './file-diff.ts'
import { defineTool, type FileEdit, type Tool, type ToolCall, ToolError } from './tool.ts'

const path = z.string().min(1).describe('A path in the workspace, such as src/main.ts')
const MAX_LINES = 2000

/** The tools that read and change single files. */
export function fileTools(files: ConfinedFolder): Tool[] {
  const seen = createSeenFiles()
  const tools = [
    readFile(files, seen),
    writeToFile(files, seen),
    replaceInFile(files, seen),
    deleteFile(files),
  ]
  return tools.map((tool) => ({ ...tool, run: (args, call) => confined(tool.run(args, call)) }))
}

/** The hash of each file as a conversation's model last saw it: read, or written by one of its tools. */
interface SeenFiles {
  note(call: ToolCall, path: string, bytes: Uint8Array): void
  /** Undefined when the model has not seen the file. */
  last(call: ToolCall, path: string): string | undefined
}

const MAX_SEEN = 10_000

function createSeenFiles(): SeenFiles {
  const hashes = new Map<string, string>()
  const keyOf = ({ conversationId }: ToolCall, path: string) => `${conversationId} ${path}`
  return {
    note(call, path, bytes) {
      // Evict the oldest entry.
      const [oldest] = hashes.size >= MAX_SEEN ? hashes.keys() : []
      if (oldest !== undefined) hashes.delete(oldest)
      hashes.delete(keyOf(call, path))
      hashes.set(keyOf(call, path), hash('sha256', bytes))
    },
    last: (call, path) => hashes.get(keyOf(call, path)),
  }
}

function readFile(files: ConfinedFolder, seen: SeenFiles): Tool {
  return defineTool({
    name: 'read_file',
    description: `Reads a text file, at most ${MAX_LINES} lines at a time; use start_line to read on.`,
    effects: { isRepeatable: true, files: 'none', paths: ({ path: named }) => [named] },
    args: z.object({
      path,
      start_line: z.int().min(1).optional().describe('The first line to read, counted from 1'),
      end_line: z.int().min(1).optional().describe('The last line to read'),
    }),
    async run(args, call) {
      const { bytes } = await files.read(args.path)
      const text = textOf(args.path, bytes)
      seen.note(call, files.shown(args.path), bytes)
      const lines = text.split('\n')
      const from = args.start_line ?? 1
      const to = Math.min(args.end_line ?? lines.length, from + MAX_LINES - 1, lines.length)
      if (from === 1 && to === lines.length) return { output: text }
      if (from > lines.length) throw new ToolError(`${args.path} has only ${lines.length} lines.`)
      const shown = lines.slice(from - 1, to).join('\n')
      return { output: `${shown}\n[lines ${from} to ${to} of ${lines.length}]` }
    },
  })
}

function writeToFile(files: ConfinedFolder, seen: SeenFiles): Tool {
  return defineTool({
    name: 'write_to_file',
    description: 'Writes a whole file, new or existing. Creates folders as needed.',
    effects: { isRepeatable: false, files: 'recorded', paths: ({ path: named }) => [named] },
    args: z.object({ path, content: z.string() }),
    async run({ path: given, content }, call) {
      const shown = files.shown(given)
      await files.read(given, 'write').catch(nullIfMissing)
      const after = Buffer.from(content)
      const edited = await files.write(given, after, call)
      seen.note(call, shown, after)
      return {
        output: `${edited.wasThere ? 'Wrote' : 'Created'} ${shown} (${after.length} bytes).`,
        edits: [editOf(shown, edited, after)],
      }
    },
  })
}

function replaceInFile(files: ConfinedFolder, seen: SeenFiles): Tool {
  return defineTool({
    name: 'replace_in_file',
    description: 'Replaces text in a file. The text must occur exactly once, unless replace_all is true.',
    effects: { isRepeatable: false, files: 'recorded', paths: ({ path: named }) => [named] },
    args: z.object({
      path,
      search: z.string().min(1).describe('The exact text to replace'),
      replace: z.string(),
      replace_all: z.boolean().optional(),
    }),
    async run({ path: given, search, replace, replace_all }, call) {
      const shown = files.shown(given)
      const { bytes } = await files.read(given, 'write')
      const read = hash('sha256', bytes)
      if ((seen.last(call, shown) ?? read) !== read) throw new FileChanged(given)
      const text = textOf(given, bytes)
      const count = text.split(search).length - 1
      if (count === 0) throw new ToolError(`The text is not in ${given}. Read the file again.`)
      if (count > 1 && !replace_all) {
        throw new ToolError(
          `The text occurs ${count} times in ${given}. Include more of it, or set replace_all.`,
        )
      }
      const after = Buffer.from(text.split(search).join(replace))
      const edited = await files.write(given, after, call, read)
      seen.note(call, shown, after)
      return {
        output: `Replaced ${count === 1 ? 'the text' : `${count} occurrences`} in ${shown}.`,
        edits: [editOf(shown, edited, after)],
      }
    },
  })
}

function deleteFile(files: ConfinedFolder): Tool {
  return defineTool({
    name: 'delete_file',
    description: 'Deletes a file.',
    effects: { isRepeatable: false, files: 'recorded', paths: ({ path: named }) => [named] },
    args: z.object({ path }),
    async run({ path: given }, call) {
      const shown = files.shown(given)
      return { output: `Deleted ${shown}.`, edits: [editOf(shown, await files.remove(given, call), null)] }
    },
  })
}

/** The edit, with the checkpoint that was taken because no earlier one had the file. */
function editOf(path: string, edited: Edited, after: Buffer | null): FileEdit {
  const { before, wasThere, previousCheckpoint, rescued } = edited
  const edit = describeEdit(path, wasThere ? Buffer.from(before ?? []) : null, after)
  return {
    ...edit,
    ...(previousCheckpoint === null ? {} : { previous_checkpoint: previousCheckpoint }),
    ...(rescued.length === 0 ? {} : { rescued }),
  }
}

function textOf(given: string, bytes: Buffer): string {
  const text = asText(bytes)
  if (text === null) throw new ToolError(`${given} is not UTF-8 text (${bytes.length} bytes).`)
  return text
}

/** Translates file system errors for the model. */
export async function confined<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof PathRefused) throw new ToolError(`Refused: ${error.message}.`)
    if (error instanceof FileChanged) {
      throw new ToolError(`${error.message} has changed since it was read. Read it again.`)
    }
    const { code } = error as NodeJS.ErrnoException
    const known = code === undefined ? undefined : systemErrors[code]
    if (known === undefined) throw error
    throw new ToolError(known)
  }
}

const systemErrors: Partial<Record<string, string>> = {
  ENOENT: 'There is no such file or folder.',
  ENOTDIR: 'A part of the path is not a folder.',
  EISDIR: 'That is a folder, not a file.',
  EACCES: 'The file system denied permission.',
  EPERM: 'The file system denied permission.',
  EROFS: 'The file system is read-only.',
  ENOSPC: 'The disk is full.',
  ELOOP: 'Refused: the path leads through a link that was created in the meantime.',
  ENAMETOOLONG: 'The path is too long.',
  ENXIO: 'That is not a file.',
}

function nullIfMissing(error: NodeJS.ErrnoException): null {
  // A dangling link is replaced like a missing file.
  if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(error.code ?? '')) return null
  throw error
}
