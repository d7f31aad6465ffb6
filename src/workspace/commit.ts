import { timestamp } from '../core/clock.ts'
import type { Git } from '../git/git.ts'

/** A checkpoint is a git commit. Data that git has no field for is stored in trailers of its message. */
export interface Commit {
  tree: string
  parents: string[]
  label: string
  /** The tree that records which files were left out and why; see record.ts. */
  record: string
  /** In milliseconds; git itself keeps only seconds. */
  time: number
}

export const RECORD = 'Waymark-Record'
const TIME = 'Waymark-Time'
const WHO = 'Waymark <waymark@localhost>'

export function commitBody({ tree, parents, label, record, time }: Commit): Buffer {
  const when = `${Math.floor(time / 1000)} +0000`
  const lines = [
    `tree ${tree}`,
    ...parents.map((parent) => `parent ${parent}`),
    `author ${WHO} ${when}`,
    `committer ${WHO} ${when}`,
    '',
    oneLine(label),
    '',
    `${RECORD}: ${record}`,
    `${TIME}: ${timestamp(time)}`,
    '',
  ]
  return Buffer.from(lines.join('\n'))
}

export async function readCommit(git: Git, id: string): Promise<Commit> {
  const found = await git.read(id)
  if (found?.type !== 'commit') throw new Error(`the checkpoint ${id} is missing`)
  const text = found.body.toString()
  const end = text.indexOf('\n\n')
  const head = text.slice(0, end).split('\n')
  const message = text.slice(end + 2)
  const field = (name: string) => head.find((line) => line.startsWith(`${name} `))?.slice(name.length + 1)
  const trailer = (name: string) => message.match(new RegExp(`^${name}: (.+)$`, 'm'))?.[1]
  const record = trailer(RECORD) ?? ''
  // The value is passed to git unchanged, and git accepts more than ids there.
  if (!/^[0-9a-f]{40}$/.test(record)) throw new Error(`the checkpoint ${id} was not made by Waymark`)
  return {
    tree: field('tree') ?? '',
    parents: head.filter((line) => line.startsWith('parent ')).map((line) => line.slice(7)),
    label: message.split('\n')[0] ?? '',
    record,
    time: Date.parse(trailer(TIME) ?? ''),
  }
}

/** To git, a NUL would end the message, and a line feed would end the label. */
function oneLine(label: string): string {
  return label.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim() || 'Checkpoint'
}
