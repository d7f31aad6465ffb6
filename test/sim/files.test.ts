import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  accessSync,
  chmodSync,
  constants,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Workspace } from '../../src/workspace/workspace.ts'
import { openWorkspaceThread } from '../../src/workspace/workspace-thread.ts'
import { rounds } from '../support/soak.ts'
import { everythingIn, gitIn, UMASK } from '../support/workspace.ts'

/**
 * Random trees with concurrent edits by tools, commands and other programs, and checkpoints and restores in any order.
 * Every byte and permission is compared with a plain directory walk.
 */

const LIMIT = 2000
const folders = ['', 'a/', 'a/b/', 'c/', 'node_modules/', 'nested/', '.hidden/']
const names = ['x', 'y.txt', 'z.log', '.env', 'odd "name"\n', 'ü', 'sub']

const path = fc.tuple(fc.constantFrom(...folders), fc.constantFrom(...names)).map((parts) => parts.join(''))
const text = fc.string({ maxLength: 40 })
const edit = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant('write' as const), path, text }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('tool' as const), path, text }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('tool-delete' as const), path }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('command' as const), path, text }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('same-size' as const), path }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('delete' as const), path }) },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constant('delete-folder' as const), path: fc.constantFrom(...folders) }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('rename' as const), path, to: path }) },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant('rename-folder' as const),
      path: fc.constantFrom('a', 'c', 'a/b'),
      to: fc.constantFrom('c', 'd', 'a/e'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('chmod' as const),
      path,
      mode: fc.constantFrom(0o644, 0o755, 0o600, 0o444, 0o000),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('link' as const),
      path,
      to: fc.constantFrom('x', '../c', '/etc', 'nowhere'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('swap' as const), path }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('large' as const), path }) },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constant('repository' as const), path: fc.constantFrom('nested', 'c') }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('ignore' as const),
      rule: fc.constantFrom('*.log\n', 'a/\n', '*.log\n!z.log\n', 'x\n', ''),
    }),
  },
)
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constant('edits' as const),
      edits: fc.array(edit, { minLength: 1, maxLength: 5 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('checkpoint' as const) }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('restore' as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('undo' as const) }) },
)

type ValueOf<T> = T extends fc.Arbitrary<infer V> ? V : never
type Edit = ValueOf<typeof edit>
type Step = ValueOf<typeof step>
type Files = Map<string, string>

interface Saved {
  id: string
  time: number
  /** Every file in the folder at that time. */
  files: Files
  /** The files in the checkpoint: path → object id. */
  captured: Map<string, string>
}

class Round {
  readonly root = mkdtempSync(join(tmpdir(), 'waymark-sim-'))
  readonly dataDir = join(this.root, '.waymark')
  readonly saved: Saved[] = []
  readonly toolWritten = new Map<string, { at: number; before: string | null }>()
  readonly workspace: Workspace
  readonly repository: Files
  private last: string[] = []
  /** True while a step with several edits runs. */
  private isRacing = false

  constructor(isWatched: boolean) {
    mkdirSync(this.dataDir)
    execFileSync('git', ['init', '-q', this.root])
    this.put('tracked.txt', 'tracked')
    execFileSync('git', ['-C', this.root, 'add', '.'])
    this.repository = everythingIn(join(this.root, '.git'))
    this.workspace = openWorkspaceThread({
      root: this.root,
      dataDir: this.dataDir,
      include: [],
      exclude: [],
      maxFileBytes: LIMIT,
      umask: UMASK,
      path: process.env.PATH ?? '',
      watch: isWatched,
      watchedFrom: 0,
    })
  }

  at = (path: string) => join(this.root, path)

  put(path: string, text: string): void {
    mkdirSync(dirname(this.at(path)), { recursive: true })
    writeFileSync(this.at(path), text)
  }

  /** Files found by a plain walk, without `.git` folders. */
  files(): Files {
    return new Map([...everythingIn(this.root)].filter(([path]) => !/(^|\/)\.git(\/|$)/.test(path)))
  }

  /** Applies the edits of one step at the same time. */
  async edit(edits: readonly Edit[]): Promise<void> {
    this.isRacing = edits.length > 1
    await Promise.all(edits.map((one) => this.editOne(one)))
  }

  private async editOne(one: Edit): Promise<void> {
    try {
      await this.tryEdit(one)
    } catch (error) {
      // The edit is impossible here, for example a file where a folder is needed: skip it.
      const { code } = error as NodeJS.ErrnoException
      const expected = [
        'ENOENT',
        'ENOTDIR',
        'EISDIR',
        'ERR_FS_EISDIR',
        'EEXIST',
        'ENOTEMPTY',
        'EINVAL',
        'ELOOP',
      ]
      if (!expected.includes(code ?? '')) throw error
    }
  }

  private async tryEdit(one: Edit): Promise<void> {
    switch (one.type) {
      case 'write':
        return this.put(one.path, one.text)
      case 'tool':
        if (this.leadsAway(one.path)) return
        return await this.tool(one.path, one.text)
      case 'tool-delete':
        if (this.leadsAway(one.path) || !this.isThere(one.path)) return
        return await this.tool(one.path, null)
      case 'command': {
        const script = 'mkdir -p "$(dirname "$1")" && printf %s "$2" > "$1"'
        const child = spawn('sh', ['-c', script, 'sh', this.at(one.path), one.text], { stdio: 'ignore' })
        await new Promise((resolve) => child.once('close', resolve))
        return
      }
      case 'same-size': {
        const { size, atime, mtime } = lstatSync(this.at(one.path))
        if (!lstatSync(this.at(one.path)).isFile()) return
        writeFileSync(this.at(one.path), Math.random().toString(36).padEnd(size, 'q').slice(0, size))
        return utimesSync(this.at(one.path), atime, mtime)
      }
      case 'delete':
        return rmSync(this.at(one.path))
      case 'delete-folder':
        if (one.path !== '') rmSync(this.at(one.path), { recursive: true, force: true })
        return
      case 'rename':
      case 'rename-folder':
        return renameSync(this.at(one.path), this.at(one.to))
      case 'chmod':
        if (lstatSync(this.at(one.path)).isSymbolicLink()) return
        if (lstatSync(this.at(one.path)).isDirectory()) return
        return chmodSync(this.at(one.path), one.mode)
      case 'link':
        return symlinkSync(one.to, this.at(one.path))
      case 'swap': {
        const isFolder = lstatSync(this.at(one.path)).isDirectory()
        rmSync(this.at(one.path), { recursive: true })
        return this.put(isFolder ? one.path : `${one.path}/inner`, 'swapped')
      }
      case 'large':
        return this.put(one.path, 'L'.repeat(LIMIT + 1))
      case 'repository':
        if (!this.isThere(one.path)) mkdirSync(this.at(one.path), { recursive: true })
        if (!lstatSync(this.at(one.path)).isDirectory()) return
        execFileSync('git', ['init', '-q', this.at(one.path)])
        return
      case 'ignore':
        return one.rule === '' ? rmSync(this.at('.gitignore')) : this.put('.gitignore', one.rule)
    }
  }

  private isThere(path: string): boolean {
    return lstatSync(this.at(path), { throwIfNoEntry: false })?.isFile() ?? false
  }

  /** The path is a folder or goes through a link. Tools resolve links before they write. */
  private leadsAway(path: string): boolean {
    const parts = path.split('/')
    return parts.some((_, index) => {
      const found = lstatSync(this.at(parts.slice(0, index + 1).join('/')), { throwIfNoEntry: false })
      return found ? found.isSymbolicLink() || (index === parts.length - 1 && found.isDirectory()) : false
    })
  }

  private async tool(path: string, text: string | null): Promise<void> {
    const key = Buffer.from(path).toString('latin1')
    const before = this.files().get(key) ?? null
    const at = Date.now()
    const checkpoint = { label: 'Before edit', parents: this.last, time: at }
    const bytes = text === null ? null : Buffer.from(text)
    const edited = await this.workspace.edit({ path, bytes, checkpoint }, async () => {})
    // Another edit of the step may have changed, removed or replaced the file meanwhile; alone, a tool is never refused.
    if (!edited.isDone && this.isRacing) return
    if (!edited.isDone) throw new Error(`the edit of ${path} was refused: ${edited.why}`)
    if (!this.toolWritten.has(key)) this.toolWritten.set(key, { at, before })
    await nextMillisecond()
  }

  async checkpoint(): Promise<Saved> {
    await nextMillisecond()
    const time = Date.now()
    const { id } = await this.workspace.checkpoint({ label: 'a checkpoint', parents: this.last, time })
    this.last = [id]
    const listed = gitIn(join(this.dataDir, 'store'), 'ls-tree', '-r', '-z', id).split('\0').slice(0, -1)
    const captured = new Map(
      listed.map((line) => [line.split('\t').slice(1).join('\t'), line.split(/[ \t]/)[2] ?? '']),
    )
    const saved = { id, time, files: this.files(), captured }
    this.saved.push(saved)
    this.checkCaptured(saved)
    await nextMillisecond()
    return saved
  }

  /** Checks that the checkpoint has the exact bytes of every file that no rule leaves out. */
  private checkCaptured({ id, files, captured }: Saved): void {
    const rule = this.files().get('.gitignore') ?? ''
    for (const [path, found] of files) {
      if (path.endsWith('/') || captured.has(path)) continue
      const isLarge = !found.startsWith('link ') && found.length > LIMIT
      const mayBeIgnored = rule !== ''
      expect(
        isLarge || isHidden(path) || mayBeIgnored || !this.isReadable(path),
        `${path} is missing from ${id}`,
      ).toBe(true)
    }
    for (const [path, oid] of captured) {
      const bytes = Buffer.from(files.get(path)?.replace(/^(link|\d+) /, '') ?? 'nothing', 'latin1')
      expect(createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex'), path).toBe(oid)
    }
  }

  private isReadable(path: string): boolean {
    try {
      accessSync(Buffer.from(`${this.root}/${path}`, 'latin1'), constants.R_OK)
      return true
    } catch {
      return false
    }
  }

  async restore(target: Saved): Promise<void> {
    const safety = await this.checkpoint()
    const report = await this.workspace.restore({ target: target.id, safety: safety.id, paths: null })
    const after = this.files()
    const skipped = new Set(report.skipped.map((skip) => asBytes(skip.path)))
    // Captured files are restored.
    for (const path of target.captured.keys()) {
      if (!skipped.has(path)) expect(after.get(path), `${path} of ${target.id}`).toBe(target.files.get(path))
    }
    // Files that were never captured are untouched, unless a tool changed them.
    for (const [path, found] of safety.files) {
      if (path.endsWith('/') || safety.captured.has(path)) continue
      if (!this.isToolsAfter(path, target)) expect(after.get(path), `uncaptured ${path}`).toBe(found)
    }
    // Files that no checkpoint had and a tool overwrote are restored, too.
    for (const [path, { before }] of this.toolWritten) {
      if (!this.isToolsAfter(path, target) || before === null || skipped.has(path)) continue
      if (isHidden(path) && !target.captured.has(path))
        expect(after.get(path), `overwritten ${path}`).toBe(before)
    }
    // Files added after the target are deleted, and no others.
    for (const path of safety.captured.keys()) {
      if (target.captured.has(path) || skipped.has(path) || this.isToolsAfter(path, target)) continue
      expect(after.has(path), `${path} came later`).toBe(false)
    }
    for (const { path, reason } of report.skipped) {
      expect(reason).toMatch(/left it out|unsaved|in the way/)
      expect(after.get(asBytes(path)), `skipped ${path}`).toBe(safety.files.get(asBytes(path)))
    }
  }

  private isToolsAfter(path: string, target: Saved): boolean {
    const written = this.toolWritten.get(path)
    return written !== undefined && written.at >= target.time
  }

  async play(one: Step): Promise<void> {
    const target = this.saved.at(
      one.type === 'undo' ? -2 : one.type === 'restore' ? one.which % (this.saved.length || 1) : -1,
    )
    if (one.type === 'edits') await this.edit(one.edits)
    else if (one.type === 'checkpoint') await this.checkpoint()
    else if (target) await this.restore(target)
  }

  async end(): Promise<void> {
    for (const target of this.saved.slice(0, 5)) await this.restore(target)
    expect(await this.workspace.verifyWatching()).toEqual([])
    expect(everythingIn(join(this.root, '.git'))).toEqual(this.repository)
    const fsck = gitIn(join(this.dataDir, 'store'), 'fsck', '--full', '--strict')
    expect(fsck).not.toMatch(/error|missing|broken/)
  }

  async close(): Promise<void> {
    await this.workspace.close()
    execFileSync('chmod', ['-R', 'u+rwx', this.root])
    rmSync(this.root, { recursive: true, force: true })
  }
}

/** Left out regardless of ignore files. */
function isHidden(path: string): boolean {
  return path.split('/').some((part) => part.startsWith('.') || part === 'node_modules')
}

/** Waits for the clock: the checks order events by their time in milliseconds. */
async function nextMillisecond(): Promise<void> {
  const now = Date.now()
  while (Date.now() <= now + 1) await new Promise((resolve) => setTimeout(resolve, 1))
}

function asBytes(shown: string): string {
  return shown.startsWith('"')
    ? shown
        .slice(1, -1)
        .replaceAll(/\\([0-7]{3}|["\\])/g, (_, code: string) =>
          code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8)) : code,
        )
    : Buffer.from(shown).toString('latin1')
}

for (const isWatched of [false, true]) {
  it(`[W2] [W3] [W4] loses no captured file and touches no other, ${isWatched ? 'with watches' : 'with full scans'}`, {
    timeout: 3_600_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 25 }), async (steps) => {
        const round = new Round(isWatched)
        try {
          for (const one of steps) await round.play(one)
          await round.end()
        } finally {
          await round.close()
        }
      }),
      {
        // No shrinking: the seed reproduces the steps, and reading them is faster than waiting for shorter ones.
        numRuns: rounds(8, 250),
        endOnFailure: true,
      },
    )
  })
}
