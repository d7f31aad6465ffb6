import { useQuery } from '@tanstack/react-query'
import { parseCopyWorkspaceId } from '../../src/protocol/ids.ts'
import { Button } from '../controls/button.tsx'
import { dateOf } from '../format.ts'
import { go, Link } from '../location.tsx'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { ComparisonView } from './comparison.tsx'
import { type DrawnMember, drawFamily } from './family-graph.ts'

interface BranchesProps {
  conversationId: string
  /** The conversation to compare with. */
  other: string | null
}

const ROW = 56
const WIDTH = 320
const EDGE = 12

/** The family as a graph that shows where each fork leaves its parent. */
export function BranchesView({ conversationId, other }: BranchesProps) {
  const family = useQuery({
    queryKey: keys.tree(conversationId),
    queryFn: () => server.tree(conversationId),
    refetchInterval: 5000,
  })
  if (family.isPending) return <p className="loading">{text.looking}</p>
  if (family.isError) return <p className="failure">{explain(family.error)}</p>
  const drawn = drawFamily(family.data)
  return (
    <div className="branches scrolls">
      <h2>{text.branches.title}</h2>
      <p className="quiet">{drawn.length === 1 ? text.branches.alone : text.branches.means}</p>
      <div className="family">
        {drawn.length > 1 && <Graph drawn={drawn} current={conversationId} />}
        <ul style={{ gridAutoRows: `${ROW}px` }}>
          {drawn.map(({ member }) => (
            <MemberRow key={member.conversation_id} member={member} current={conversationId} other={other} />
          ))}
        </ul>
      </div>
      {other !== null && (
        <Button look="quiet" icon="close" onClick={() => go({ conversationId, view: 'branches' })}>
          {text.branches.noComparison}
        </Button>
      )}
      {other !== null && <ComparisonView from={conversationId} to={other} members={family.data.items} />}
    </div>
  )
}

function Graph({ drawn, current }: { drawn: readonly DrawnMember[]; current: string }) {
  const x = (share: number) => EDGE + share * (WIDTH - 2 * EDGE)
  const y = (row: number) => row * ROW + ROW / 2
  return (
    <svg
      className="graph"
      width={WIDTH}
      height={drawn.length * ROW}
      viewBox={`0 0 ${WIDTH} ${drawn.length * ROW}`}
      aria-hidden="true"
    >
      {drawn.map(({ member, row, from, to, parentRow }) => (
        <g key={member.conversation_id} className={classOf(member, current)}>
          {parentRow !== null && (
            <path
              d={`M${x(from)} ${y(parentRow)} C${x(from)} ${y(row)} ${x(from)} ${y(row)} ${x(from) + 10} ${y(row)}`}
            />
          )}
          <path
            d={`M${x(from) + (parentRow === null ? 0 : 10)} ${y(row)} H${Math.max(x(to), x(from) + 16)}`}
          />
          <circle cx={Math.max(x(to), x(from) + 16)} cy={y(row)} r="5" />
        </g>
      ))}
    </svg>
  )
}

function classOf({ conversation_id, is_deleted }: DrawnMember['member'], current: string): string {
  if (is_deleted) return 'deleted'
  return conversation_id === current ? 'current' : ''
}

function MemberRow({
  member,
  current,
  other,
}: {
  member: DrawnMember['member']
  current: string
  other: string | null
}) {
  const {
    conversation_id: id,
    title,
    parent,
    head_event_number,
    workspace_id,
    is_deleted,
    updated_at,
  } = member
  const name = title ?? text.conversations.untitled
  return (
    <li>
      <div>
        {is_deleted ? (
          <span className="quiet">{text.branches.deleted}</span>
        ) : (
          <Link to={{ conversationId: id }} aria-current={id === current ? 'true' : undefined}>
            {name}
          </Link>
        )}
        <p className="quiet">
          {parent === null
            ? text.branches.root(head_event_number)
            : text.branches.forkedAt(parent.event_number, head_event_number)}
          {parseCopyWorkspaceId(workspace_id)?.conversationId === id && ` · ${text.branches.ownFiles}`}
          {' · '}
          {dateOf(updated_at)}
        </p>
      </div>
      {id !== current && !is_deleted && (
        <label className="compare">
          <input
            type="radio"
            name="compare"
            checked={other === id}
            onChange={() => go({ conversationId: current, view: 'branches', other: id })}
          />
          {text.branches.compare}
          <span className="hidden">{name}</span>
        </label>
      )}
    </li>
  )
}
