import { memo } from 'react'
import type { MessageEntry } from '../../src/replay/transcript.ts'
import { Button } from '../controls/button.tsx'
import { Icon } from '../controls/icon.tsx'
import { bytesOf, dateOf, timeOf } from '../format.ts'
import { useMay } from '../scopes.ts'
import { text } from '../text.ts'
import { useReadOnly } from './read-only.ts'

export type MessageAction = 'restore' | 'fork' | 'edit' | 'delete'

interface MessageProps {
  message: MessageEntry
  onAct(action: MessageAction, message: MessageEntry): void
}

/** What a person said, as they wrote it, and what can be done from here. */
export const MessageRow = memo(function MessageRow({ message, onAct }: MessageProps) {
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
      <div className="said">{content}</div>
      {(activeFiles.length > 0 || attachments.length > 0) && (
        <ul className="chips" aria-label={text.transcript.sentAlong}>
          {activeFiles.map((path) => (
            <li key={path} className="chip">
              <Icon name="file" />
              {path}
            </li>
          ))}
          {attachments.map(({ name, bytes }, index) => (
            <li key={index} className="chip">
              <Icon name="clip" />
              {name} <span className="quiet">{bytesOf(bytes)}</span>
            </li>
          ))}
        </ul>
      )}
      {!isReadOnly && (
        <div className="row-actions" role="group" aria-label={text.transcript.actions}>
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
        </div>
      )}
    </>
  )
})
