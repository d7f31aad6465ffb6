import { memo, useMemo, useState } from 'react'
import { Button } from '../controls/button.tsx'
import { text } from '../text.ts'
import { type ChangedPart, changedParts, type DiffLine, diffLines } from './diff-lines.ts'

const SHOWN_LINES = 300
const signs = { same: ' ', added: '+', removed: '−', gap: ' ' } as const

export const DiffView = memo(function DiffView({ diff, label }: { diff: string; label: string }) {
  const lines = useMemo(() => diffLines(diff), [diff])
  const [isWhole, setWhole] = useState(false)
  const changed = useMemo(() => changedParts(lines), [lines])
  const shown = isWhole ? lines : lines.slice(0, SHOWN_LINES)
  // A file that is new, or gone, has numbers on one side only.
  const sides = lines.every(({ kind }) => kind === 'added' || kind === 'removed') ? 'one-side' : ''
  return (
    <div className="diff" role="group" aria-label={text.diff.of(label)} tabIndex={0}>
      <div className={`diff-lines ${sides}`}>
        {shown.map((line, index) => (
          <Line key={index} line={line} changed={changed.get(index)} />
        ))}
      </div>
      {shown.length < lines.length && (
        <Button look="quiet" onClick={() => setWhole(true)}>
          {text.diff.showAll(lines.length)}
        </Button>
      )}
    </div>
  )
})

function Line({ line, changed }: { line: DiffLine; changed: ChangedPart | undefined }) {
  const { kind, before, after, text: content } = line
  return (
    <div className={`diff-line ${kind}`}>
      <span className="number" data-number={before ?? ''} />
      <span className="number" data-number={after ?? ''} />
      <span className="sign">{signs[kind]}</span>
      <span className="content">
        {changed ? (
          <>
            {content.slice(0, changed.from)}
            <mark>{content.slice(changed.from, changed.to)}</mark>
            {content.slice(changed.to)}
          </>
        ) : (
          content
        )}
      </span>
    </div>
  )
}

export function Counts({ additions, deletions }: { additions: number; deletions: number }) {
  return (
    <span className="counts">
      <span className="plus">+{additions}</span> <span className="minus">−{deletions}</span>
    </span>
  )
}
