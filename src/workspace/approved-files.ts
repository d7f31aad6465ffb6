import type { Git } from '../git/git.ts'
import { type BytePath, shownPath } from './byte-path.ts'
import { readCommit } from './commit.ts'
import { readRecord, whyLeftOut } from './record.ts'
import { compareTrees, type TreeEntry } from './trees.ts'

export interface ApprovedQuery {
  /** Newest first. */
  approvals: readonly string[]
  /** The approval before the oldest of them; null for its own starting point. */
  since: string | null
  /** True to add the current files, as if they were approved too. */
  withCurrent: boolean
}

/** A file that approvals have changed. */
export interface ApprovedFile {
  path: string
  /** Null for a deleted file. */
  mode: string | null
  body: Uint8Array
  /** The states before each of the approvals; null where the file was not there. */
  before: ({ mode: string; body: Uint8Array } | null)[]
  /** Why checkpoints leave it out: it may exist although they lack it. Null if they include it. */
  leftOut: string | null
}

const MAX_BYTES = 256 * 1024 * 1024

/** The files that these approvals have changed, with their contents. */
export async function approvedFiles(
  git: Git,
  { approvals, since }: ApprovedQuery,
  /** The current files; null to leave them out. */
  current: { tree: string; record: string } | null,
): Promise<ApprovedFile[]> {
  const states = current ? [current] : []
  for (const id of approvals) states.push(await readCommit(git, id))
  const oldest = approvals.at(-1)
  const base = since ?? (oldest === undefined ? null : ((await readCommit(git, oldest)).parents[0] ?? null))
  if (base !== null && (await git.read(base))) states.push(await readCommit(git, base))
  const [latest] = states
  if (!latest) return []

  const found = new Map<BytePath, { to: TreeEntry | null; before: (TreeEntry | null)[] }>()
  for (const [at, { tree }] of states.slice(0, -1).entries()) {
    for (const { path, from, to } of await compareTrees(git, states[at + 1]?.tree ?? tree, tree)) {
      const known = found.get(path) ?? { to, before: [] }
      if (!known.before.some((one) => one?.oid === from?.oid && one?.mode === from?.mode))
        known.before.push(from)
      found.set(path, known)
    }
  }

  const leftOutFor = whyLeftOut(await readRecord(git, latest.record))
  let bytes = 0
  const read = async (entry: TreeEntry | null) => {
    if (!entry) return null
    const body = (await git.read(entry.oid))?.body ?? Buffer.alloc(0)
    bytes += body.length
    if (bytes > MAX_BYTES) throw new Error('the approved files exceed 256 MB; use git commit instead')
    return { mode: entry.mode, body }
  }
  const files: ApprovedFile[] = []
  for (const [path, { to, before }] of found) {
    const now = await read(to)
    const earlier: ApprovedFile['before'] = []
    for (const entry of before) earlier.push(await read(entry))
    const why = to === null ? leftOutFor(path) : null
    const { mode = null, body = Buffer.alloc(0) } = now ?? {}
    files.push({ path: shownPath(path), mode, body, before: earlier, leftOut: why })
  }
  return files.sort((one, other) => (one.path < other.path ? -1 : 1))
}
