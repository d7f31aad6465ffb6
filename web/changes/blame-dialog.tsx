import { useQuery } from '@tanstack/react-query'
import type { BlameView } from '../../src/protocol/api/work.ts'
import { linesOf } from '../../src/protocol/lines.ts'
import { Dialog } from '../controls/dialog.tsx'
import { dateOf } from '../format.ts'
import { Link } from '../location.tsx'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'

/** Each line of a file with the message and the call that wrote it; a link leads to that moment on the timeline. */
export function BlameDialog({
  conversationId,
  path,
  onClose,
}: {
  conversationId: string
  path: string
  onClose(): void
}) {
  const blame = useQuery({
    queryKey: [...keys.work(conversationId), 'blame', path],
    queryFn: () => server.blame(conversationId, path),
    retry: false,
  })
  return (
    <Dialog title={text.blame.title(path)} onClose={onClose} wide>
      {blame.isPending && <p>{text.looking}</p>}
      {blame.isError && <p className="failure">{explain(blame.error)}</p>}
      {blame.isSuccess && <Lines view={blame.data} onLeave={onClose} />}
    </Dialog>
  )
}

function Lines({ view, onLeave }: { view: BlameView; onLeave(): void }) {
  const content = linesOf(view.text)
  return (
    <table className="blame">
      <tbody>
        {view.lines.map(({ from, to, author }) => (
          <tr key={from}>
            <td>
              <Author author={view.authors[author]} onLeave={onLeave} />
            </td>
            <td className="lines">
              {content.slice(from - 1, to).map((line, index) => (
                <pre key={from + index}>
                  <span className="number">{from + index}</span>
                  <code>{line}</code>
                </pre>
              ))}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Author({ author, onLeave }: { author: BlameView['authors'][number] | undefined; onLeave(): void }) {
  if (!author || author.kind === 'outside' || author.kind === 'unknown')
    return <span className="quiet">{text.blame[author?.kind === 'outside' ? 'outside' : 'unknown']}</span>
  const { conversation_id, event_number, message, agent, tool, at } = author
  const name = text.blame.author(message, agent, tool?.split('__').at(-1) ?? null)
  if (conversation_id === null || event_number === null) return name
  const to = { conversationId: conversation_id, view: 'timeline' as const, at: event_number }
  return (
    <Link to={to} title={at === null ? undefined : dateOf(at)} onClick={onLeave}>
      {name}
    </Link>
  )
}
