import { useQuery } from '@tanstack/react-query'
import { memo, type ReactNode } from 'react'
import type { Frame } from '../../src/protocol/frames.ts'
import type { Mark } from '../../src/replay/transcript.ts'
import { Button } from '../controls/button.tsx'
import { Foldable } from '../controls/foldable.tsx'
import { Icon, type IconName } from '../controls/icon.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { numberOf } from '../format.ts'
import { Link } from '../location.tsx'
import { useAskRestore } from '../restoring/ask-restore.tsx'
import { useMay } from '../scopes.ts'
import { keys, queries, server } from '../server.ts'
import { text } from '../text.ts'
import { Markdown } from './markdown.tsx'
import { useOpen } from './open-parts.tsx'
import { useReadOnly } from './read-only.ts'
import { Edit } from './tool-card.tsx'
import { undeleteMessage } from './undelete.ts'

interface MarkProps {
  mark: Mark
  at: number
  conversationId: string
}

/** An event between messages, such as a restore or a fork. */
export const MarkRow = memo(function MarkRow({ mark, at, conversationId }: MarkProps) {
  const toasts = useToasts()
  const askRestore = useAskRestore()
  const mayWrite = useMay('conversations:write')
  const mayChangeFiles = useMay('workspace:write')
  switch (mark.kind) {
    case 'edit':
      return <Edit edit={mark.edit} />
    case 'restored':
      return (
        <Divider
          icon="restore"
          label={text.marks[mark.frame.adopted_from === undefined ? 'restored' : 'adopted'](
            mark.frame.restored,
            mark.frame.deleted,
          )}
        >
          <Skipped skipped={mark.frame.skipped} />
          <Button
            look="quiet"
            icon="restore"
            disabled={!mayChangeFiles}
            onClick={() => askRestore(mark.frame.safety_checkpoint)}
          >
            {text.marks.undoRestore}
          </Button>
        </Divider>
      )
    case 'approved':
      return (
        <Divider
          icon="check"
          label={text.marks.approved(mark.frame.closed_session, mark.frame.message ?? null)}
        />
      )
    case 'reset':
      return (
        <Divider icon="restore" label={text.marks.reset(mark.frame.closed_session)}>
          <Skipped skipped={mark.frame.skipped} />
          <Button
            look="quiet"
            icon="restore"
            disabled={!mayChangeFiles}
            onClick={() => askRestore(mark.frame.pre_reset_checkpoint)}
          >
            {text.marks.undoReset}
          </Button>
        </Divider>
      )
    case 'memory':
      return <MemoryMark frame={mark.frame} at={at} conversationId={conversationId} />
    case 'imported':
      return <Divider icon="down" label={text.marks.imported(mark.frame.agent, mark.frame.entries)} />
    case 'forked':
      return (
        <Divider icon="fork" label={text.marks.forked}>
          <Link
            className="button quiet"
            to={{ conversationId: mark.parentConversationId, view: 'timeline', at: mark.fromEventNumber }}
          >
            {text.marks.toParent}
          </Link>
        </Divider>
      )
    case 'cut':
      return (
        <Divider icon="trash" label={text.marks.cut(mark.by)}>
          <Button
            look="quiet"
            icon="restore"
            disabled={!mayWrite}
            onClick={() => void toasts.attempt(() => undeleteMessage(conversationId, mark.messageId, toasts))}
          >
            {text.marks.undelete}
          </Button>
        </Divider>
      )
    case 'title':
      return <Divider icon="edit" label={text.marks.title(mark.title)} />
    case 'agent':
      return <Divider icon="forward" label={text.marks.agent(mark.from, mark.to)} />
    case 'unknown':
      return <Divider icon="file" label={text.marks.unknown(mark.frameKind)} />
    case 'checkpoint':
      return null
  }
})

function Divider({ icon, label, children }: { icon: IconName; label: string; children?: ReactNode }) {
  const isReadOnly = useReadOnly()
  return (
    <div className="divider">
      <span>
        <Icon name={icon} />
        {label}
      </span>
      {!isReadOnly && children}
    </div>
  )
}

function Skipped({ skipped }: { skipped: readonly { path: string; reason: string }[] }) {
  if (skipped.length === 0) return null
  return (
    <ul className="skipped">
      {skipped.map(({ path, reason }) => (
        <li key={path}>{text.work.skipped(path, reason)}</li>
      ))}
    </ul>
  )
}

/** A memory checkpoint; expands to the kept and the dropped events. */
function MemoryMark({
  frame,
  at,
  conversationId,
}: {
  frame: Frame<'memory.checkpoint'>
  at: number
  conversationId: string
}) {
  const { checkpoint } = frame
  const [isOpen, toggle] = useOpen(`memory ${at}`, false)
  const isUndone = checkpoint.strategy === 'none'
  const before = numberOf(checkpoint.tokens_before)
  const after = numberOf(checkpoint.tokens_after)
  const label = isUndone ? text.memory.undone : text.memory.shortened(checkpoint.strategy, before, after)
  return (
    <Foldable className="memory" isOpen={isOpen} onToggle={toggle} heading={<span>{label}</span>}>
      {isUndone ? (
        <p>{text.memory.undoneMeans}</p>
      ) : (
        <MemoryDetails frame={frame} at={at} conversationId={conversationId} />
      )}
    </Foldable>
  )
}

function MemoryDetails({
  frame: { checkpoint },
  at,
  conversationId,
}: {
  frame: Frame<'memory.checkpoint'>
  at: number
  conversationId: string
}) {
  const { attempt, show } = useToasts()
  const mayWrite = useMay('conversations:write')
  const isReadOnly = useReadOnly()
  const memory = useQuery({
    queryKey: keys.memory(conversationId),
    queryFn: () => server.memory(conversationId),
  })
  const items = memory.data?.items ?? []
  const summary = items.find((item) => item.event_number === at)?.summary
  const isLast = items[0]?.event_number === at && !isReadOnly
  async function undo(): Promise<void> {
    await server.undoMemory(conversationId)
    show({ message: text.memory.isUndone, conversationId })
    void queries.invalidateQueries({ queryKey: keys.memory(conversationId) })
  }
  return (
    <>
      <p>{text.memory.why(checkpoint.trigger_reason)}</p>
      <dl>
        <dt>{text.memory.kept}</dt>
        <dd>
          {text.memory.keptFrom(checkpoint.kept_from_seq, checkpoint.items_after, checkpoint.items_before)}{' '}
          <Link to={{ conversationId, view: 'timeline', at: checkpoint.kept_from_seq }}>
            {text.memory.look}
          </Link>
        </dd>
        <dt>{text.memory.dropped}</dt>
        <dd>
          {checkpoint.dropped.length === 0
            ? text.memory.nothing
            : checkpoint.dropped.map(([from, to]) => text.memory.range(from, to)).join(', ')}
        </dd>
      </dl>
      {summary != null && (
        <>
          <h4>{text.memory.summary}</h4>
          <Markdown source={summary} isOpen={false} />
        </>
      )}
      <p className="quiet">{text.memory.peopleSeeAll}</p>
      {isLast && (
        <Button icon="restore" disabled={!mayWrite} onClick={() => void attempt(undo)}>
          {text.memory.undo}
        </Button>
      )}
    </>
  )
}
