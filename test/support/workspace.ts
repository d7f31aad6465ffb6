import { execFileSync } from 'node:child_process'
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { EditFile } from '../../src/agent/tools/confined-folder.ts'
import type { EditCommand, EditOutcome } from '../../src/workspace/file-operations.ts'
import { openWorkspace, type Workspace, type WorkspaceOptions } from '../../src/workspace/workspace.ts'

/** A temporary project with its workspace, in this thread. */
export interface TestWorkspace {
  root: string
  dataDir: string
  workspace: Workspace
  /** Makes a checkpoint whose parent is the previous one. */
  checkpoint(label?: string): Promise<string>
  /** Makes a safety checkpoint, then restores. */
  restore(target: string, paths?: string[]): ReturnType<Workspace['undo']>
  /** Replaces or deletes a file the way the agent's tools do. */
  tool(path: string, text: string | null): Promise<EditOutcome>
  reopen(options?: Partial<WorkspaceOptions>): Promise<void>
  git(...args: string[]): string
  close(): Promise<void>
}

export const UMASK = 0o022

export function openTestWorkspace(options: Partial<WorkspaceOptions> = {}): TestWorkspace {
  const root = options.root ?? mkdtempSync(join(tmpdir(), 'waymark-files-'))
  const dataDir = join(root, '.waymark')
  mkdirSync(dataDir, { recursive: true })
  const open = (more: Partial<WorkspaceOptions>) =>
    openWorkspace({
      root,
      dataDir,
      include: [],
      exclude: [],
      maxFileBytes: 1024 * 1024,
      umask: UMASK,
      path: process.env.PATH ?? '',
      watch: false,
      ...options,
      ...more,
    })
  let last: string[] = []
  const one: TestWorkspace = {
    root,
    dataDir,
    workspace: open({}),
    async checkpoint(label = 'a checkpoint') {
      const { id } = await one.workspace.checkpoint({ label, parents: last, time: Date.now() })
      last = [id]
      return id
    },
    async restore(target, paths) {
      const safety = await one.checkpoint('Before restore')
      const { made: _made, ...report } = await one.workspace.restore({ target, safety, paths: paths ?? null })
      return report
    },
    tool: (path, text) => one.workspace.edit(editOf(path, text, last), async () => {}),
    async reopen(more = {}) {
      await one.workspace.close()
      one.workspace = open(more)
    },
    git: (...args) => gitIn(join(dataDir, 'store'), ...args),
    async close() {
      await one.workspace.close()
      rmSync(root, { recursive: true, force: true })
    },
  }
  return one
}

function editOf(path: string, text: string | null, parents: string[]): EditCommand {
  const checkpoint = { label: `Before edit: ${path}`, parents, time: Date.now() }
  return { path, bytes: text === null ? null : Buffer.from(text), checkpoint }
}

/** The edit function for file tools, without a conversation. */
export function editFileIn(workspace: Workspace): EditFile {
  return async ({ path, bytes, expected, confirm }) => {
    const { checkpoint } = editOf(path, null, [])
    const outcome = await workspace.edit({ path, bytes, expected, checkpoint }, () => confirm([]))
    return outcome.isDone ? { ...outcome, previousCheckpoint: outcome.kept?.id ?? null } : outcome
  }
}

/** Runs git on one of Waymark's repositories. */
export function gitIn(repository: string, ...args: string[]): string {
  const env = { PATH: process.env.PATH, GIT_DIR: repository, GIT_CONFIG_GLOBAL: '/dev/null', LC_ALL: 'C' }
  return execFileSync('git', args, {
    env,
    cwd: repository,
    encoding: 'latin1',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Every entry below a folder: path → type, permissions and content of files and links; folders by name only. */
export function everythingIn(root: string, except: readonly string[] = ['.waymark']): Map<string, string> {
  const found = new Map<string, string>()
  const walk = (folder: Buffer, shown: string) => {
    for (const name of readdirSync(folder, { encoding: 'buffer' })) {
      const path = Buffer.concat([folder, Buffer.from('/'), name])
      const at = shown === '' ? name.toString('latin1') : `${shown}/${name.toString('latin1')}`
      if (except.includes(at)) continue
      const stats = lstatSync(path)
      if (stats.isDirectory()) {
        found.set(`${at}/`, 'folder')
        walk(path, at)
      } else if (stats.isSymbolicLink()) found.set(at, `link ${readlinkSync(path, 'latin1')}`)
      else if (stats.isFile()) {
        const mode = (stats.mode & 0o777).toString(8)
        found.set(at, `${mode} ${readFileSync(path).toString('latin1')}`)
      } else found.set(at, 'special')
    }
  }
  walk(Buffer.from(root), '')
  return found
}

/** Shorthands for a workspace's files. */
export function filesOf(workspace: () => TestWorkspace) {
  const at = (path: string) => join(workspace().root, path)
  return {
    at,
    write(path: string, text: string | Buffer): void {
      mkdirSync(join(at(path), '..'), { recursive: true })
      writeFileSync(at(path), text)
    },
    read: (path: string) => readFileSync(at(path), 'utf8'),
    /** Sets the file's times far enough back that timestamp granularity doesn't matter. */
    age: (path: string) => utimesSync(at(path), new Date(0), new Date(0)),
    /** Paths in a checkpoint. */
    listed: (checkpoint: string) =>
      workspace().git('ls-tree', '-r', '--name-only', '-z', checkpoint).split('\0').slice(0, -1),
  }
}
