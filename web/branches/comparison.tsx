import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type { Comparison } from '../../src/protocol/api/lines.ts'
import { ChangedFiles } from '../changes/changes-view.tsx'
import { Boundary } from '../controls/boundary.tsx'
import { Link } from '../location.tsx'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { ReadOnly } from '../transcript/read-only.ts'
import { eventOf, rowsOf } from '../transcript/rows.ts'
import { RowView } from '../transcript/transcript-view.tsx'
import type { Member } from './family-graph.ts'

/** Two conversations side by side from the point where they diverge, and their file differences. */
export function ComparisonView({
  from,
  to,
  members,
}: {
  from: string
  to: string
  members: readonly Member[]
}) {
  const headOf = (id: string) => members.find((member) => member.conversation_id === id)?.head_event_number
  const comparison = useQuery({
    // The heads are part of the key, so that the comparison is refetched when either conversation grows.
    queryKey: [...keys.tree(from), 'compare', to, headOf(from), headOf(to)],
    queryFn: () => server.compare(from, to, { diff: true, limit: 200 }),
    placeholderData: (before, query) => (query?.queryKey[3] === to ? before : undefined),
  })
  if (comparison.isPending) return <p className="loading">{text.looking}</p>
  if (comparison.isError) return <p className="failure">{explain(comparison.error)}</p>
  const { parted_after, files } = comparison.data
  const nameOf = (id: string) =>
    members.find((member) => member.conversation_id === id)?.title ?? text.conversations.untitled
  return (
    <section className="comparison" aria-label={text.branches.comparison}>
      <h2>{text.branches.comparison}</h2>
      <p>{text.branches.parted(parted_after)}</p>
      <div className="sides">
        <Side side={comparison.data.from} name={nameOf(from)} partedAfter={parted_after} />
        <Side side={comparison.data.to} name={nameOf(to)} partedAfter={parted_after} />
      </div>
      <h3>{text.branches.files}</h3>
      {files === null ? (
        <p className="quiet">{text.branches.noFiles}</p>
      ) : files.length === 0 ? (
        <p className="quiet">{text.branches.sameFiles}</p>
      ) : (
        <ChangedFiles files={files} />
      )}
    </section>
  )
}

/** The transcript of one side since they diverged: messages, tool calls and edits. */
function Side({
  side: { conversation_id: id, head_event_number: head },
  name,
  partedAfter,
}: {
  side: Comparison['from']
  name: string
  partedAfter: number
}) {
  const transcript = useQuery({
    queryKey: [...keys.tree(id), 'transcript', head],
    queryFn: ({ signal }) => server.transcriptAt(id, head, { signal }),
    placeholderData: keepPreviousData,
  })
  const since = transcript.data ? rowsOf(transcript.data).filter((row) => eventOf(row) > partedAfter) : []
  // The heading and the graph show the fork and its title.
  const rows = since.filter((row) => row.type !== 'mark' || !['forked', 'title'].includes(row.mark.kind))
  const isCut = (transcript.data?.from ?? 0) > partedAfter + 1
  return (
    <div className="side-by-side">
      <h3>
        <Link to={{ conversationId: id }}>{name}</Link>
      </h3>
      {transcript.isPending && <p className="loading">{text.looking}</p>}
      {transcript.isError && <p className="failure">{explain(transcript.error)}</p>}
      {transcript.isSuccess && rows.length === 0 && (
        <p className="quiet">{text.branches.nothingSince(partedAfter)}</p>
      )}
      {isCut && <p className="quiet">{text.branches.more}</p>}
      <ReadOnly value={true}>
        <div className="rows then">
          {rows.map((row) => (
            <div key={row.key} className={`row ${row.type}`}>
              <Boundary>
                <RowView row={row} conversationId={id} onAct={nothing} onFork={nothing} onAgain={nothing} />
              </Boundary>
            </div>
          ))}
        </div>
      </ReadOnly>
    </div>
  )
}

const nothing = () => {}
