import type { DiffView } from '../../src/protocol/api/work.ts'
import { text } from '../text.ts'

type Change = Pick<DiffView['files'][number], 'status' | 'left_out'>

/** What happened to a file, in a word. */
export function ChangeWord({ file: { status, left_out } }: { file: Change }) {
  if (left_out !== undefined) return <span className="change">{text.changes.leftOut}</span>
  return <span className={`change ${status}`}>{text.changes.words[status]}</span>
}
