import type { Entry, Item, Mark, MessageEntry, RunEntry, Transcript } from '../../src/replay/transcript.ts'

/** A row of the virtual list. Runs are split into several rows, so that only the visible parts are rendered. */
export type Row =
  | { type: 'message'; key: string; message: MessageEntry }
  | { type: 'run'; key: string; run: RunEntry }
  | { type: 'item'; key: string; run: RunEntry; item: Item; isLast: boolean }
  | { type: 'run-end'; key: string; run: RunEntry }
  | { type: 'mark'; key: string; at: number; mark: Mark }

const known = new WeakMap<Entry, readonly Row[]>()

export function rowsOf(transcript: Transcript): Row[] {
  // Hide renames before the first message; the heading already shows the title.
  const first = transcript.from > 1 ? 0 : transcript.entries.findIndex((entry) => entry.type === 'message')
  return transcript.entries.flatMap((entry, index) => {
    if (entry.type === 'mark' && entry.mark.kind === 'title' && (first < 0 || index < first)) return []
    const rows = known.get(entry) ?? rowsOfEntry(entry)
    known.set(entry, rows)
    return rows
  })
}

export function eventOf(row: Row): number {
  if (row.type === 'message') return row.message.at
  return row.type === 'mark' ? row.at : row.run.at
}

function rowsOfEntry(entry: Entry): Row[] {
  if (entry.type === 'message') return [{ type: 'message', key: `message ${entry.at}`, message: entry }]
  if (entry.type === 'run') return rowsOfRun(entry)
  return isShown(entry.mark) && entry.at > 1
    ? [{ type: 'mark', key: `mark ${entry.at}`, at: entry.at, mark: entry.mark }]
    : []
}

function rowsOfRun(run: RunEntry): Row[] {
  const items = run.items.filter((item) => (item.type === 'mark' ? isShown(item.mark) : !isEmpty(item)))
  return [
    { type: 'run', key: `run ${run.at}`, run },
    ...items.map(
      (item, index): Row => ({
        type: 'item',
        key: `${run.runId} ${item.key}`,
        run,
        item,
        isLast: index === items.length - 1,
      }),
    ),
    { type: 'run-end', key: `end ${run.at}`, run },
  ]
}

/** Checkpoints are hidden, because each message offers its own. */
function isShown(mark: Mark): boolean {
  return mark.kind !== 'checkpoint'
}

function isEmpty(item: Item): boolean {
  if (item.type === 'text') return item.parts.every((part) => part.text === '' && part.refusal === null)
  return item.type === 'reasoning' && item.parts.every((part) => part.text.trim() === '')
}
