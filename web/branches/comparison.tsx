import { useQuery } from '@tanstack/react-query'
import type { Message } from '../../src/protocol/api/ledger.ts'
import type { Comparison } from '../../src/protocol/api/lines.ts'
import { ChangedFiles } from '../changes/changes-view.tsx'
import { timeOf } from '../format.ts'
import { Link } from '../location.tsx'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { Markdown } from '../transcript/markdown.tsx'
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

function Side({
  side: { conversation_id, messages, has_more },
  name,
  partedAfter,
}: {
  side: Comparison['from']
  name: string
  partedAfter: number
}) {
  return (
    <div className="side-by-side">
      <h3>
        <Link to={{ conversationId: conversation_id }}>{name}</Link>
      </h3>
      {messages.length === 0 && <p className="quiet">{text.branches.nothingSince(partedAfter)}</p>}
      {messages.map((message) => (
        <Said key={message.message_id} message={message} />
      ))}
      {has_more && <p className="quiet">{text.branches.more}</p>}
    </div>
  )
}

function Said({ message: { role, content, created_at } }: { message: Message }) {
  return (
    <div className={`said-by ${role}`}>
      <p className="row-head">
        <span className="who">{role === 'user' ? text.transcript.you : text.transcript.agent}</span>
        <time dateTime={created_at}>{timeOf(created_at)}</time>
      </p>
      {role === 'user' ? <div className="said">{content}</div> : <Markdown source={content} isOpen={false} />}
    </div>
  )
}
