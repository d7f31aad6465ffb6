import { useQuery } from '@tanstack/react-query'
import { useDeferredValue, useState } from 'react'
import { prepareShare, sharedHtml } from '../../src/sharing/shared-file.ts'
import { Button } from '../controls/button.tsx'
import { Dialog } from '../controls/dialog.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { useMay } from '../scopes.ts'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { download } from './download.ts'

/** Writes the conversation to a read-only HTML file, after a look at what is redacted; or exports all of it. */
export function ShareDialog({
  conversationId,
  title,
  onClose,
}: {
  conversationId: string
  title: string
  onClose(): void
}) {
  const { attempt } = useToasts()
  const mayExport = useMay('admin')
  const [typed, setTyped] = useState('')
  const words = useDeferredValue(typed)
  const also = words.split('\n').map((word) => word.trim())
  const prepared = useQuery({
    queryKey: [...keys.conversation(conversationId), 'share', words],
    queryFn: () => prepareShare(server, conversationId, { now: new Date().toISOString(), also }),
    placeholderData: (before) => before,
    staleTime: 0,
    gcTime: 0,
  })

  async function write(): Promise<void> {
    if (!prepared.data) return
    const template = await fetch('/shared.html')
    if (!template.ok) throw new Error(text.share.noTemplate)
    const html = sharedHtml(await template.text(), prepared.data.shared)
    download(`${fileName(title)}.html`, new Blob([html], { type: 'text/html' }))
  }

  async function exportAll(): Promise<void> {
    const archive = await new Response(await server.export(conversationId)).blob()
    download(`${fileName(title)}.waymark.tar`, archive)
  }

  const redactions = prepared.data?.redactions ?? []
  return (
    <Dialog
      title={text.share.title}
      onClose={onClose}
      action={{
        label: text.share.action,
        run: write,
        isReady: prepared.isSuccess && !prepared.isPlaceholderData,
      }}
    >
      <p>{text.share.means}</p>
      <label className="field">
        {text.share.also}
        <textarea rows={2} value={typed} onChange={(event) => setTyped(event.target.value)} />
      </label>
      {prepared.isPending && <p>{text.looking}</p>}
      {prepared.isError && <p className="failure">{explain(prepared.error)}</p>}
      {prepared.isSuccess && <h3>{text.share.redacted(redactions.length)}</h3>}
      {redactions.length > 0 && (
        <ul className="files-report">
          {redactions.map(({ what, shown, count }, index) => (
            <li key={index}>
              {what} <code>{shown}</code> <span className="quiet">{text.share.places(count)}</span>
            </li>
          ))}
        </ul>
      )}
      {mayExport && (
        <p className="quiet">
          {text.share.exportMeans}{' '}
          <Button look="quiet" onClick={() => void attempt(exportAll)}>
            {text.share.export}
          </Button>
        </p>
      )}
    </Dialog>
  )
}

function fileName(title: string): string {
  const name = title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replaceAll(/^-|-$/g, '')
  return name.slice(0, 60) || 'conversation'
}
