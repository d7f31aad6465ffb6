import { memo } from 'react'
import type { MessageEntry } from '../../src/replay/transcript.ts'
import { Button } from '../controls/button.tsx'
import { ShowAll } from '../controls/show-all.tsx'
import { dateOf, timeOf } from '../format.ts'
import { useMay } from '../scopes.ts'
import { text } from '../text.ts'
import { CopyButton } from './code-block.tsx'
import { useKept } from './open-parts.tsx'
import { useReadOnly } from './read-only.ts'
import { RowActions } from './row-actions.tsx'
import { SentAlong } from './sent-along.tsx'

export type MessageAction = 'restore' | 'fork' | 'edit' | 'delete'

interface MessageProps {
  message: MessageEntry
  conversationId: string
  onAct(action: MessageAction, message: MessageEntry): void
}

/** A user message, unformatted, with its actions. */
export const MessageRow = memo(function MessageRow({ message, conversationId, onAct }: MessageProps) {
  const { content, timestamp, activeFiles, attachments, checkpointId } = message
  const isReadOnly = useReadOnly()
  const mayWrite = useMay('conversations:write')
  const mayChangeFiles = useMay('workspace:write')
  return (
    <>
      <div className="row-head">
        <span className="who">{text.transcript.you}</span>
        <time dateTime={timestamp} title={dateOf(timestamp)}>
          {timeOf(timestamp)}
        </time>
      </div>
      <Said content={content} id={message.messageId} />
      {(activeFiles.length > 0 || attachments.length > 0) && (
        <SentAlong message={message} conversationId={conversationId} />
      )}
      {!isReadOnly && (
        <RowActions name={text.transcript.actions}>
          <Button
            look="quiet"
            icon="restore"
            disabled={checkpointId === null || !mayChangeFiles}
            onClick={() => onAct('restore', message)}
          >
            {text.transcript.restore}
          </Button>
          <Button look="quiet" icon="fork" disabled={!mayWrite} onClick={() => onAct('fork', message)}>
            {text.transcript.fork}
          </Button>
          <Button look="quiet" icon="edit" disabled={!mayWrite} onClick={() => onAct('edit', message)}>
            {text.transcript.editAndFork}
          </Button>
          <Button look="quiet" icon="trash" disabled={!mayWrite} onClick={() => onAct('delete', message)}>
            {text.transcript.delete}
          </Button>
          <CopyButton content={content} />
        </RowActions>
      )}
    </>
  )
})

const LONG_LINES = 24
const LONG_CHARACTERS = 2500

/** Long messages are collapsed, because the user knows their own text. */
function Said({ content, id }: { content: string; id: string }) {
  const [isWhole, keep] = useKept(`said ${id}`, false)
  const lines = content.split('\n')
  const isLong = lines.length > LONG_LINES || content.length > LONG_CHARACTERS
  const shown =
    isWhole || !isLong ? content : `${lines.slice(0, LONG_LINES).join('\n').slice(0, LONG_CHARACTERS)} …`
  return (
    <>
      <div className="said" dir="auto">
        {shown}
      </div>
      {isLong && !isWhole && <ShowAll onPress={() => keep(true)} />}
    </>
  )
}
