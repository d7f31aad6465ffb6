// Checkpoints, restores and first snapshots at three project sizes, against the git commands that most agents use.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openWorkspaceThread } from '../src/workspace/workspace-thread.ts'
import { type Figure, median, milliseconds, report, say, times } from './support/figure.ts'

/** Not counted: a server runs for days, and in the first rounds its code is still being compiled. */
const WARM_UP = 10
const ROUNDS = WARM_UP + 15
const CHANGED = 10
const FILES_A_FOLDER = 50

/** Target speed-ups: checkpoint against add and commit, restore against reset, first snapshot against add. */
const sizes = [
  { files: 500, checkpoint: 5, restore: null, first: null, firstRounds: 3 },
  { files: 10_000, checkpoint: 20, restore: 5, first: 2, firstRounds: 3 },
  { files: 100_000, checkpoint: 50, restore: 5, first: 2, firstRounds: 1 },
]

const figures: Figure[] = []
for (const size of sizes) figures.push(...(await measure(size)))
report(figures)

async function measure(size: (typeof sizes)[number]): Promise<Figure[]> {
  const root = mkdtempSync(join(tmpdir(), 'waymark-bench-'))
  const shadow = `${root}-shadow`
  const { files } = size
  const named = `${files.toLocaleString('en')} files`
  say(`${named}: writing …`)
  makeProject(root, files)
  try {
    const first: number[] = []
    const firstPeer: number[] = []
    for (let round = 0; round < size.firstRounds; round++) {
      firstPeer.push(await timed(() => addTo(freshShadow(root, shadow))))
      const { checkpoint, close } = openOurs(root)
      // Starting the thread counts as server start, not as part of the checkpoint.
      await close.ready()
      first.push(await timed(() => checkpoint()))
      await close()
      say(`first snapshot: ${milliseconds(first.at(-1) ?? 0)} against ${milliseconds(firstPeer.at(-1) ?? 0)}`)
      if (round < size.firstRounds - 1) rmSync(join(root, '.waymark'), { recursive: true })
    }
    git(shadow, root, 'commit', '-q', '-m', 'first')

    const { checkpoint, restore, restoreAlone, close } = openOurs(root)
    await checkpoint()
    // Recently changed files are read a second time; in practice that is over before a user has typed a message.
    await new Promise((resolve) => setTimeout(resolve, 2500))
    await checkpoint()
    const ours: number[] = []
    const committed: number[] = []
    const written: number[] = []
    const restored: number[] = []
    const putBack: number[] = []
    const reset: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      if (round === WARM_UP)
        for (const list of [ours, committed, written, restored, putBack, reset]) list.length = 0
      change(root, files, round)
      ours.push(await timed(() => checkpoint()))
      committed.push(await timed(() => (addTo(shadow), git(shadow, root, 'commit', '-q', '-m', 'next'))))
      change(root, files, round + 0.25)
      await checkpoint()
      written.push(await timed(() => (addTo(shadow), git(shadow, root, 'write-tree'))))
      git(shadow, root, 'commit', '-q', '-m', 'another')
      const target = await checkpoint()
      change(root, files, round + 0.5)
      restored.push(await timed(() => restore(target)))
      change(root, files, round + 0.6)
      putBack.push(await restoreAlone(target))
      change(root, files, round + 0.75)
      reset.push(await timed(() => git(shadow, root, 'reset', '-q', '--hard')))
      await checkpoint()
      const line = [ours, committed, written, restored, reset].map((list) => milliseconds(list.at(-1) ?? 0))
      say(`round ${round + 1}: checkpoint, add+commit, add+write-tree, restore, reset: ${line.join(', ')}`)
    }
    await close()
    return [
      {
        figure: `checkpoint, ${CHANGED} of ${named} changed (slowest ${milliseconds(Math.max(...ours))}); peer: \`git add -A && git commit\` in a shadow repository`,
        ours: milliseconds(median(ours)),
        peer: milliseconds(median(committed)),
        ratio: times(median(committed) / median(ours)),
        wanted: `at least ${size.checkpoint}×, never over 20 ms`,
        met: median(committed) / median(ours) >= size.checkpoint && Math.max(...ours) <= 20,
      },
      {
        figure: `checkpoint, ${CHANGED} of ${named} changed; peer: \`git add -A && git write-tree\``,
        ours: milliseconds(median(ours)),
        peer: milliseconds(median(written)),
        ratio: times(median(written) / median(ours)),
        wanted: '–',
        met: null,
      },
      {
        figure: `restore of ${CHANGED} of ${named}, with the checkpoints before and after it; peer: \`git reset --hard\``,
        ours: milliseconds(median(restored)),
        peer: milliseconds(median(reset)),
        ratio: times(median(reset) / median(restored)),
        wanted: size.restore === null ? '–' : `at least ${size.restore}×`,
        met: size.restore === null ? null : median(reset) / median(restored) >= size.restore,
      },
      {
        figure: `restore of ${CHANGED} of ${named}, without the checkpoints; peer: \`git reset --hard\``,
        ours: milliseconds(median(putBack)),
        peer: milliseconds(median(reset)),
        ratio: times(median(reset) / median(putBack)),
        wanted: '–',
        met: null,
      },
      {
        figure: `first snapshot of ${named}; peer: \`git add -A\``,
        ours: milliseconds(median(first)),
        peer: milliseconds(median(firstPeer)),
        ratio: times(median(firstPeer) / median(first)),
        wanted: size.first === null ? '–' : `at least ${size.first}×`,
        met: size.first === null ? null : median(firstPeer) / median(first) >= size.first,
      },
    ]
  } finally {
    rmSync(root, { recursive: true, force: true })
    rmSync(shadow, { recursive: true, force: true })
  }
}

function openOurs(root: string) {
  const dataDir = join(root, '.waymark')
  mkdirSync(dataDir, { recursive: true })
  const workspace = openWorkspaceThread({
    root,
    dataDir,
    include: [],
    exclude: [],
    maxFileBytes: 10 * 1024 * 1024,
    umask: 0o022,
    path: process.env.PATH ?? '',
    watch: true,
  })
  let last: string[] = []
  async function checkpoint(label = 'Before user message: go on'): Promise<string> {
    const { id } = await workspace.checkpoint({ label, parents: last, time: Date.now() })
    last = [id]
    return id
  }
  return {
    checkpoint,
    async restore(target: string): Promise<void> {
      const safety = await checkpoint('Before restore')
      const checkpointAfter = { label: `Restored to ${target}`, time: Date.now() }
      const { restored, made } = await workspace.restore({ target, safety, paths: null, checkpointAfter })
      if (restored.length !== CHANGED) throw new Error(`expected ${CHANGED} files, got ${restored.length}`)
      last = [made?.id ?? '']
    },
    /** Returns the time of the restore alone, without the checkpoints before and after it. */
    async restoreAlone(target: string): Promise<number> {
      const safety = await checkpoint('Before restore')
      const taken = await timed(() => workspace.restore({ target, safety, paths: null }))
      await checkpoint(`Restored to ${target}`)
      return taken
    },
    close: Object.assign(() => workspace.close(), { ready: () => workspace.condition() }),
  }
}

/** Creates realistic source files: a few kilobytes each, of different lengths. */
function makeProject(root: string, files: number): void {
  for (let i = 0; i < files; i++) {
    if (i % FILES_A_FOLDER === 0) mkdirSync(join(root, folderOf(i)), { recursive: true })
    writeFileSync(pathOf(root, i), contentOf(i, 0))
  }
}

function folderOf(i: number): string {
  const folder = Math.floor(i / FILES_A_FOLDER)
  return join('src', `part-${folder % 20}`, `module-${folder}`)
}

function pathOf(root: string, i: number): string {
  return join(root, folderOf(i), `file-${i}.ts`)
}

function contentOf(i: number, version: number): string {
  const lines = Array.from(
    { length: 10 + ((i * 37) % 90) },
    (_, line) => `export const value${line} = ${(i * 7919 + line * 104_729) % 1_000_003} // of file ${i}`,
  )
  return `// version ${version}\n${lines.join('\n')}\n`
}

/** Changes ten files across the project, different ones each time. */
function change(root: string, files: number, version: number): void {
  for (let n = 0; n < CHANGED; n++) {
    const i = Math.floor((n * files) / CHANGED + version * 4) % files
    writeFileSync(pathOf(root, i), contentOf(i, version + 1 + n))
  }
}

function freshShadow(root: string, shadow: string): string {
  rmSync(shadow, { recursive: true, force: true })
  git(shadow, root, 'init', '-q')
  writeFileSync(join(shadow, 'info', 'exclude'), '.waymark\n')
  return shadow
}

function addTo(shadow: string): void {
  git(shadow, shadow.replace(/-shadow$/, ''), 'add', '-A')
}

function git(shadow: string, root: string, ...args: string[]): void {
  const who = ['-c', 'user.name=x', '-c', 'user.email=x@localhost', '-c', 'gc.auto=0']
  const env = { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' }
  execFileSync('git', [...who, `--git-dir=${shadow}`, `--work-tree=${root}`, ...args], { env, stdio: 'pipe' })
}

async function timed(work: () => unknown): Promise<number> {
  const started = performance.now()
  await work()
  return performance.now() - started
}
