import { setImmediate } from 'node:timers/promises'
import { applyPatch } from 'diff'
import { type Blame, createBlame } from '../core/blame.ts'
import type { BlameAuthor, BlamedFile, BlameEdit, BlameStep } from '../core/work-sessions.ts'
import type { Git } from '../git/git.ts'
import { type BytePath, fromShown, shownPath } from './byte-path.ts'
import { readCommit } from './commit.ts'
import { compareTrees, entryIn, FOLDER_MODE, type TreeEntry } from './trees.ts'

/** Larger files, and binary ones, have no lines to blame. */
const MAX_BYTES = 1024 * 1024
/** Two texts with at least this share of lines in common are the same file under another name. */
const SIMILAR = 0.5
const MOST_CANDIDATES = 50
const MOST_COMPARISONS = 50_000_000

/** A history that takes too long is refused, never blamed in part. */
export class BlameTooSlow extends Error {
  constructor() {
    super('The history of this file is too long to blame. Compare two checkpoints with waymark diff instead.')
    this.name = 'BlameTooSlow'
  }
}

function assertBefore(deadline: number): void {
  if (performance.now() > deadline) throw new BlameTooSlow()
}

/** The file in one tree, by the name that it had then. */
interface Then {
  path: BytePath
  entry: TreeEntry | null
  /** It had another name in the tree before. */
  isRenamed: boolean
}

export interface EarlierPaths {
  /** The file's names in the checkpoints and now, newest first: its edits are found by them. */
  paths: string[]
  /** Where the file appears without an earlier name; null if the first checkpoint has it. */
  born: Born | null
}

export interface Born {
  /** The last checkpoint that lacks it. */
  after: string
  /** The checkpoint that has it first; null if only the current files do. */
  in: string | null
  text: string
}

/** A name that a file had only between two checkpoints: an edit created it, and it was renamed before the next checkpoint. */
export interface FirstName {
  path: string
  in: string | null
}

export async function earlierPaths(
  git: Git,
  checkpoints: readonly string[],
  path: string,
  now: string,
  deadline: number,
): Promise<EarlierPaths> {
  const stored = await storedAmong(git, checkpoints)
  const found = await follow(git, [...(await treesOf(git, stored)), now], fromShown(path), deadline)
  const paths = [...new Set(found.toReversed().map((file) => shownPath(file.path)))]
  const first = found.findIndex((file) => file.entry !== null)
  const after = stored[first - 1]
  const text = after === undefined ? null : await textOf(git, found[first]?.entry ?? null)
  return {
    paths,
    born: after === undefined || text === null ? null : { after, in: stored[first] ?? null, text },
  }
}

/** The created file whose text is most like this one, which has another name by now; null if none is alike. */
export async function createdAs(
  text: string,
  created: readonly { path: string; diff: string | null }[],
): Promise<string | null> {
  let best: string | null = null
  let most = 0
  for (const { path, diff } of created.slice(0, MOST_CANDIDATES)) {
    await setImmediate()
    const before = diff === null ? null : patched('', diff)
    const shared = before === null ? 0 : likeness(before, text)
    if (shared < SIMILAR || shared <= most) continue
    best = path
    most = shared
  }
  return best
}

/** The share of lines that two texts have in common, each as often as both have it; brackets and blank lines don't count. */
export function likeness(one: string, other: string): number {
  const [lines, others] = [tellingLines(one), tellingLines(other)]
  const left = new Map<string, number>()
  for (const line of others) left.set(line, (left.get(line) ?? 0) + 1)
  let shared = 0
  for (const line of lines) {
    const count = left.get(line) ?? 0
    if (count > 0) shared++
    left.set(line, count - 1)
  }
  return shared / Math.max(lines.length, others.length, 1)
}

function tellingLines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => /[\p{L}\p{N}]/u.test(line))
}

/** The authors of a file's lines, from its versions in checkpoints and the edits between them, oldest first. */
export async function blameFile(
  git: Git,
  all: readonly BlameStep[],
  path: string,
  now: string,
  firstName: FirstName | null,
  deadline: number,
): Promise<BlamedFile> {
  const known = new Set(
    await storedAmong(
      git,
      all.flatMap((step) => ('checkpoint' in step ? step.checkpoint : [])),
    ),
  )
  const steps = all.filter((step) => !('checkpoint' in step) || known.has(step.checkpoint))
  const checkpoints = steps.flatMap((step) => ('checkpoint' in step ? step.checkpoint : []))
  const trees = await treesOf(git, checkpoints)
  const found = await follow(git, [...trees, now], fromShown(path), deadline)
  const blame = createBlame<BlameAuthor>()
  /** An edit's outcome is not known: what has changed at the next checkpoint may be its own or not. */
  let isUnsure = false
  let at = 0
  /** True if the file has the edit's path at the next checkpoint, or had it before it was renamed. */
  const isOfFile = (edit: BlameEdit, next: number) => {
    const isAt = (index: number) => edit.path === shownPath(found[index]?.path ?? '')
    if (isAt(next)) return true
    if (edit.change === 'deleted') return false
    const isFirst = edit.path === firstName?.path && (checkpoints[next] ?? null) === firstName.in
    return isFirst || (found[next]?.isRenamed === true && isAt(next - 1))
  }
  const observe = async (author: BlameAuthor) => {
    blame.observe(await textOf(git, found[at]?.entry ?? null), isUnsure ? 'unknown' : author)
    isUnsure = false
    at++
  }
  for (const step of steps) {
    assertBefore(deadline)
    if ('checkpoint' in step) await observe(step.author)
    else if (isOfFile(step.edit, at))
      isUnsure = !(await applyEdit(git, blame, step.edit, found[at]?.isRenamed ?? false))
  }
  await observe('outside')
  return { text: blame.text(), authors: [...blame.lines()] }
}

/** False if it is not known what the edit has left. */
async function applyEdit(
  git: Git,
  blame: Blame<BlameAuthor>,
  { path, change, diff, previousCheckpoint, author }: BlameEdit,
  isRenamed: boolean,
): Promise<boolean> {
  if (previousCheckpoint !== null && (await git.read(previousCheckpoint))) {
    const { tree } = await readCommit(git, previousCheckpoint)
    blame.observe(await textOf(git, await fileAt(git, tree, fromShown(path))), 'outside')
  }
  if (change === 'deleted') {
    blame.set(null, author)
    return true
  }
  if (diff === null) return false
  const isNew = change === 'added'
  const text = patched(isNew ? '' : (blame.text() ?? ''), diff)
  if (text === null) return false
  // A renamed file keeps its lines; the diff of the new name has them all.
  if (isNew && !isRenamed) blame.set(null, author)
  blame.set(text, author)
  return true
}

/** Null if the diff does not apply, or takes too long to. An imported one may be no diff at all. */
function patched(text: string, diff: string): string | null {
  // A hunk that fits nowhere is compared with every line.
  if (diff.length > MAX_BYTES || lineCount(text) * lineCount(diff) > MOST_COMPARISONS) return null
  try {
    const result = applyPatch(text, diff, { autoConvertLineEndings: false })
    return result === false || result.length > MAX_BYTES ? null : result
  } catch {
    return null
  }
}

function lineCount(text: string): number {
  let count = 1
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++
  return count
}

/** Those that have not been collected. */
async function storedAmong(git: Git, checkpoints: readonly string[]): Promise<string[]> {
  const stored: string[] = []
  for (const id of checkpoints) if (await git.read(id)) stored.push(id)
  return stored
}

async function treesOf(git: Git, checkpoints: readonly string[]): Promise<string[]> {
  const trees: string[] = []
  for (const id of checkpoints) trees.push((await readCommit(git, id)).tree)
  return trees
}

/** Follows the file back from the last of these trees. Returns it in each of them. */
async function follow(git: Git, trees: readonly string[], path: BytePath, deadline: number): Promise<Then[]> {
  const found: Then[] = []
  let name = path
  let later: { tree: string; file: Then } | null = null
  for (const tree of trees.toReversed()) {
    assertBefore(deadline)
    let entry = await fileAt(git, tree, name)
    if (!entry && later?.file.entry) {
      const renamed = await renamedFrom(git, tree, later.tree, later.file.entry)
      if (renamed) {
        later.file.isRenamed = true
        name = renamed.path
        entry = renamed.entry
      }
    }
    const file = { path: name, entry, isRenamed: false }
    found.push(file)
    later = { tree, file }
  }
  return found.toReversed()
}

/** The file that is gone in the later tree and that the new one resembles most. */
async function renamedFrom(
  git: Git,
  earlier: string,
  later: string,
  added: TreeEntry,
): Promise<{ path: BytePath; entry: TreeEntry } | null> {
  const gone = (await compareTrees(git, earlier, later)).flatMap(({ path, from, to }) =>
    from && !to ? [{ path, entry: from }] : [],
  )
  const same = gone.find(({ entry }) => entry.oid === added.oid)
  if (same) return same
  const text = await textOf(git, added)
  if (text === null) return null
  let best: { path: BytePath; entry: TreeEntry } | null = null
  let most = 0
  for (const one of gone.slice(0, MOST_CANDIDATES)) {
    const old = await textOf(git, one.entry)
    const shared = old === null ? 0 : likeness(old, text)
    if (shared < SIMILAR || shared <= most) continue
    best = one
    most = shared
  }
  return best
}

async function fileAt(git: Git, tree: string, path: BytePath): Promise<TreeEntry | null> {
  const entry = await entryIn(git, tree, path)
  return entry && entry.mode !== FOLDER_MODE ? entry : null
}

async function textOf(git: Git, entry: TreeEntry | null): Promise<string | null> {
  const body = entry && (await git.read(entry.oid))?.body
  return body ? asText(body) : null
}

function asText(body: Buffer): string | null {
  return body.length > MAX_BYTES || body.includes(0) ? null : body.toString('utf8')
}
