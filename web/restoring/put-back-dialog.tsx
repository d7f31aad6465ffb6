import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import { Dialog } from '../controls/dialog.tsx'
import { useNotices } from '../controls/notices.tsx'
import { explain, keys, refresh } from '../server.ts'
import { text } from '../text.ts'
import { type FilesReport, ReportedFiles } from './reported-files.tsx'
import { sayRestored } from './say-restored.ts'

interface PutBackProps {
  conversationId: string
  words: { title: string; means: string; action: string }
  look?: 'main' | 'danger'
  /** Then it has to wait. */
  isRunning: boolean
  /** A choice that changes what it does; off at first. */
  option?: string
  /** What it would do. */
  preview(isOptionOn: boolean): Promise<FilesReport>
  /** Does it, once for each key, and answers where what was there is kept. */
  run(key: string, isOptionOn: boolean): Promise<FilesReport & { kept: string | null }>
  /** What more there is to know before it is done. */
  note?: ReactNode
  onClose(): void
}

/** Files are put back after a look at what that does; afterwards what was skipped and how to undo it is told. */
export function PutBackDialog(props: PutBackProps) {
  const { conversationId, words, look = 'main', isRunning, onClose } = props
  const notices = useNotices()
  // A retry after a lost answer has no second effect.
  const [{ key, isOn }, setWish] = useState(() => ({ key: newId('msg'), isOn: false }))
  const preview = useQuery({
    queryKey: keys.preview(key),
    queryFn: () => props.preview(isOn),
    staleTime: 0,
    gcTime: 0,
  })
  async function run(): Promise<void> {
    const { kept, ...report } = await props.run(key, isOn)
    sayRestored(conversationId, report, kept, notices)
    refresh(conversationId)
  }
  const isReady = !isRunning && preview.isSuccess && hasSomethingToDo(preview.data)
  return (
    <Dialog title={words.title} onClose={onClose} action={{ label: words.action, look, run, isReady }}>
      <p>{words.means}</p>
      {props.option !== undefined && (
        <label>
          <input
            type="checkbox"
            checked={isOn}
            // Another wish is another request.
            onChange={(event) => setWish({ key: newId('msg'), isOn: event.target.checked })}
          />{' '}
          {props.option}
        </label>
      )}
      {isRunning && <p className="failure">{text.changes.busy}</p>}
      {preview.isPending && <p>{text.looking}</p>}
      {preview.isError && <p className="failure">{explain(preview.error)}</p>}
      {preview.data && <ReportedFiles report={preview.data} />}
      {props.note}
    </Dialog>
  )
}

function hasSomethingToDo({ restored, deleted }: FilesReport): boolean {
  return restored.length + deleted.length > 0
}
