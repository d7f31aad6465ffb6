import { useQuery } from '@tanstack/react-query'
import type { MessageEntry } from '../../src/replay/transcript.ts'
import { Icon } from '../controls/icon.tsx'
import { bytesOf } from '../format.ts'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { CodeBlock } from './code-block.tsx'
import { languageOf } from './highlight.tsx'
import { useKept } from './open-parts.tsx'

interface SentAlongProps {
  message: MessageEntry
  conversationId: string
}

/** A message's mentioned files and its attachments, which can be expanded. */
export function SentAlong({ message, conversationId }: SentAlongProps) {
  const { messageId, activeFiles, attachments } = message
  const [opened, open] = useKept<number | null>(`along ${messageId}`, null)
  const shown = opened === null ? undefined : attachments[opened]
  return (
    <>
      <ul className="chips" aria-label={text.transcript.sentAlong}>
        {activeFiles.map((path) => (
          <li key={path} className="chip">
            <Icon name="file" />
            {path}
          </li>
        ))}
        {attachments.map(({ name, bytes }, index) => (
          <li key={index} className="chip">
            <button
              type="button"
              className="opens"
              aria-expanded={index === opened}
              onClick={() => open(index === opened ? null : index)}
            >
              <Icon name="clip" />
              {name} <span className="quiet">{bytesOf(bytes)}</span>
            </button>
          </li>
        ))}
      </ul>
      {shown && <Attachment conversationId={conversationId} {...shown} />}
    </>
  )
}

function Attachment({
  conversationId,
  name,
  sha256,
}: { conversationId: string } & MessageEntry['attachments'][number]) {
  const attachment = useQuery({
    queryKey: keys.attachment(conversationId, sha256),
    queryFn: () => server.attachment(conversationId, sha256),
    staleTime: Number.POSITIVE_INFINITY,
  })
  if (attachment.isPending) return <p className="loading">{text.looking}</p>
  if (attachment.isError) return <p className="failure">{explain(attachment.error)}</p>
  const { content, media_type } = attachment.data
  if (media_type !== undefined && content.startsWith(`data:${media_type};base64,`)) {
    return <img className="attached-image" src={content} alt={name} />
  }
  return <CodeBlock code={content} language={languageOf(name)} name={name} />
}
