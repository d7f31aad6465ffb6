import { memo, useMemo, useState } from 'react'
import { Button } from '../controls/button.tsx'
import { text } from '../text.ts'
import { type ChangedPart, changedParts, type DiffLine, diffLines } from './diff-lines.ts'
import { languageOf, useHighlighted } from './highlight.tsx'
import { linesOf, type Piece, piecesBetween } from './highlighted-lines.ts'

const SHOWN_LINES = 300
const signs = { same: ' ', added: '+', removed: '−', gap: ' ' } as const

export const DiffView = memo(function DiffView({ diff, label }: { diff: string; label: string }) {
  const lines = useMemo(() => diffLines(diff), [diff])
  const [isWhole, setWhole] = useState(false)
  const changed = useMemo(() => changedParts(lines), [lines])
  const pieces = useColors(lines, languageOf(label))
  const shown = isWhole ? lines : lines.slice(0, SHOWN_LINES)
  // A file that is new, or gone, has numbers on one side only.
  const sides = lines.every(({ kind }) => kind === 'added' || kind === 'removed') ? 'one-side' : ''
  return (
    <div className="diff" role="group" aria-label={text.diff.of(label)} tabIndex={0}>
      <div className={`diff-lines ${sides}`}>
        {shown.map((line, index) => (
          <Line key={index} line={line} pieces={pieces[index]} changed={changed.get(index)} />
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

/** The pieces of each line, colored as in its file: the old one for removed lines, the new one for all others. */
function useColors(lines: readonly DiffLine[], language: string): readonly (readonly Piece[] | undefined)[] {
  const [before, after] = useMemo(
    () =>
      (['added', 'removed'] as const).map((other) =>
        lines
          .filter(({ kind }) => kind !== other && kind !== 'gap')
          .map((line) => line.text)
          .join('\n'),
      ),
    [lines],
  )
  const [old, now] = [useHighlighted(before ?? '', language), useHighlighted(after ?? '', language)]
  return useMemo(() => {
    if (!old || !now) return []
    const [oldLines, newLines] = [linesOf(old), linesOf(now)]
    let [oldLine, newLine] = [0, 0]
    return lines.map(({ kind }) => {
      if (kind === 'gap') return undefined
      const pieces = kind === 'removed' ? oldLines[oldLine] : newLines[newLine]
      if (kind !== 'added') oldLine++
      if (kind !== 'removed') newLine++
      return pieces
    })
  }, [lines, old, now])
}

interface LineProps {
  line: DiffLine
  /** Undefined for a line without colors. */
  pieces: readonly Piece[] | undefined
  changed: ChangedPart | undefined
}

function Line({ line, pieces, changed }: LineProps) {
  const { kind, before, after, text: content } = line
  const all = pieces ?? [{ text: content, className: '' }]
  const { from, to } = changed ?? { from: content.length, to: content.length }
  return (
    <div className={`diff-line ${kind}`}>
      <span className="number" data-number={before ?? ''} />
      <span className="number" data-number={after ?? ''} />
      <span className="sign">{signs[kind]}</span>
      <span className="content">
        <Pieces pieces={piecesBetween(all, 0, from)} />
        {changed && (
          <mark>
            <Pieces pieces={piecesBetween(all, from, to)} />
          </mark>
        )}
        <Pieces pieces={piecesBetween(all, to, content.length)} />
      </span>
    </div>
  )
}

function Pieces({ pieces }: { pieces: readonly Piece[] }) {
  return pieces.map(({ text: piece, className }, index) =>
    className === '' ? (
      piece
    ) : (
      <span key={index} className={className}>
        {piece}
      </span>
    ),
  )
}

export function Counts({ additions, deletions }: { additions: number; deletions: number }) {
  return (
    <span className="counts">
      <span className="plus">+{additions}</span> <span className="minus">−{deletions}</span>
    </span>
  )
}
