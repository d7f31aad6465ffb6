import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { newId } from '../../src/protocol/ids.ts'
import { Dialog } from '../controls/dialog.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { explain, keys, refresh } from '../server.ts'
import { text } from '../text.ts'
import { type FilesReport, ReportedFiles } from './reported-files.tsx'
import { sayRestored } from './restored-toast.ts'

interface FileChangeProps {
  conversationId: string
  /** The conversation on whose page the result appears, if it is another one. */
  shownIn?: string
  words: { title: string; means: string; action: string }
  look?: 'main' | 'danger'
  /** Disables the action while a run is active. */
  isRunning: boolean
  /** Label of an optional checkbox, off by default. */
  option?: string
  /** Dry run. */
  preview(isOptionOn: boolean): Promise<FilesReport>
  /** Restores once per idempotency key; `kept` is the checkpoint of the previous files. */
  run(key: string, isOptionOn: boolean): Promise<FilesReport & { kept: string | null }>
  /** Shown below the preview. */
  note?: ReactNode
  onClose(): void
}

/** Previews a restore or reset, then runs it and shows the skipped files and an undo button. */
export function FileChangeDialog(props: FileChangeProps) {
  const { conversationId, words, look = 'main', isRunning, onClose } = props
  const toasts = useToasts()
  // The idempotency key makes a retry after a lost response safe.
  const [{ key, isOn }, setWish] = useState(() => ({ key: newId('msg'), isOn: false }))
  const preview = useQuery({
    queryKey: keys.preview(key),
    queryFn: () => props.preview(isOn),
    staleTime: 0,
    gcTime: 0,
  })
  async function run(): Promise<void> {
    const { kept, ...report } = await props.run(key, isOn)
    sayRestored(conversationId, report, kept, toasts, 'done', props.shownIn)
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
            // A changed option is a new request, with a new key.
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
