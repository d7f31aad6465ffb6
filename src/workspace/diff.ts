import type { Git } from '../git/git.ts'
import { shownPath, toBytePath } from './byte-path.ts'

/** Differences between two trees, as git reports them. */
export interface FileDifference {
  path: string
  status: 'added' | 'modified' | 'deleted'
  additions: number
  deletions: number
  is_binary: boolean
  is_too_large: boolean
  /** For a file that is not in the later checkpoint because checkpoints now leave it out: why. It still exists. */
  left_out?: string
}

export interface FileDiff extends FileDifference {
  /** A unified diff; null when there is none to show or it exceeds the size limit. */
  diff: string | null
}

/** Larger files are not compared line by line. */
const MAX_COMPARED_BYTES = 1024 * 1024
const MAX_DIFF_CHARACTERS = 4 * 1024 * 1024
const OPTIONS = ['-r', '--no-renames', '--no-ext-diff', '--no-textconv', '--no-color', '--root']

interface RawChange {
  bytePath: string
  from: string
  to: string
  letter: string
}

export async function listDifferences(
  git: Git,
  store: string,
  from: string,
  to: string,
): Promise<FileDifference[]> {
  return (await differencesOf(git, store, from, to, null)).map(({ difference }) => difference)
}

export async function diffFiles(
  git: Git,
  store: string,
  from: string,
  to: string,
  path: string | null,
): Promise<FileDiff[]> {
  const listed = await differencesOf(git, store, from, to, path)
  const patch = (await diffTree(git, store, ['-p', from, to], path)).toString()
  const sections = patch.split(/(?<=^|\n)(?=diff --git )/).filter((section) => section !== '')
  const expected = listed.reduce((sum, { raw }) => sum + (raw.letter === 'T' ? 2 : 1), 0)
  // Show no diffs rather than one under the wrong file's name.
  if (sections.length !== expected) sections.length = 0
  let next = 0
  let room = MAX_DIFF_CHARACTERS
  const diffs = listed.map(({ difference, raw }): FileDiff => {
    // Git shows a file that became a link, or vice versa, as a deletion and an addition.
    const text = sections.slice(next, next + (raw.letter === 'T' ? 2 : 1)).join('')
    next += raw.letter === 'T' ? 2 : 1
    const isShown = !difference.is_binary && !difference.is_too_large && text !== '' && text.length <= room
    if (isShown) room -= text.length
    return { ...difference, diff: isShown ? text : null }
  })
  // `path` names a file, or a folder with everything below it.
  return diffs.filter((diff) => path === null || diff.path === path || diff.path.startsWith(`${path}/`))
}

async function differencesOf(git: Git, store: string, from: string, to: string, path: string | null) {
  const output = (await diffTree(git, store, ['-z', '--raw', '--numstat', from, to], path)).toString('latin1')
  const raws: RawChange[] = []
  const counts: [string, string][] = []
  const fields = output.split('\0')
  for (let i = 0; i < fields.length - 1; i++) {
    const field = fields[i] ?? ''
    if (field.startsWith(':')) {
      const [, , before = '', after = '', letter = ''] = field.split(' ')
      raws.push({ bytePath: fields[++i] ?? '', from: before, to: after, letter })
    } else {
      const [added = '', deleted = ''] = field.split('\t')
      counts.push([added, deleted])
    }
  }
  return await Promise.all(
    raws.map(async (raw, i) => {
      const [added, deleted] = counts[i] ?? ['-', '-']
      const isCompared = added !== '-'
      const isTooLarge = !isCompared && (await isLarge(git, raw))
      const difference: FileDifference = {
        path: shownPath(raw.bytePath),
        status: raw.letter === 'A' ? 'added' : raw.letter === 'D' ? 'deleted' : 'modified',
        additions: isCompared ? Number(added) : 0,
        deletions: isCompared ? Number(deleted) : 0,
        is_binary: !isCompared && !isTooLarge,
        is_too_large: isTooLarge,
      }
      return { difference, raw }
    }),
  )
}

async function isLarge(git: Git, { from, to }: RawChange): Promise<boolean> {
  const found = await Promise.all([from, to].filter((oid) => !/^0+$/.test(oid)).map((oid) => git.read(oid)))
  return found.some((object) => object !== null && object.body.length > MAX_COMPARED_BYTES)
}

async function diffTree(
  git: Git,
  store: string,
  args: readonly string[],
  path: string | null,
): Promise<Buffer> {
  // A name that isn't valid text can't be passed to git: compare all files, and filter afterwards.
  const only =
    path !== null && !path.startsWith('"') && shownPath(toBytePath(path)) === path ? ['--', path] : []
  const settings = ['-c', `core.bigFileThreshold=${MAX_COMPARED_BYTES}`]
  return await git.run(store, [...settings, 'diff-tree', ...OPTIONS, ...args, ...only])
}
