import { useRef, useState } from 'react'
import { useToasts } from '../controls/toasts.tsx'
import { go } from '../location.tsx'
import { useMay } from '../scopes.ts'
import { keys, queries, server } from '../server.ts'
import { text } from '../text.ts'

/** Imports a file that Waymark has exported. */
export function ImportButton() {
  const { attempt, show } = useToasts()
  const mayImport = useMay('admin')
  const picker = useRef<HTMLInputElement>(null)
  const [progress, setProgress] = useState<string | null>(null)

  async function take(file: File): Promise<void> {
    setProgress(text.share.importing)
    const { imported, present } = await server.import(file, {
      onProgress: ({ events, of }) => setProgress(text.share.importProgress(events, of)),
    })
    void queries.invalidateQueries({ queryKey: keys.conversations })
    show({ message: text.share.imported(imported.length, present.length) })
    const [first] = [...imported, ...present]
    if (first !== undefined) go({ conversationId: first })
  }

  if (!mayImport) return null
  return (
    <>
      <input
        ref={picker}
        type="file"
        accept=".tar,application/x-tar"
        hidden
        aria-label={text.share.import}
        onChange={(event) => {
          const [file] = event.target.files ?? []
          if (file) void attempt(() => take(file)).finally(() => setProgress(null))
          event.target.value = ''
        }}
      />
      <button
        type="button"
        className="option"
        disabled={progress !== null}
        onClick={() => picker.current?.click()}
      >
        {progress ?? text.share.import}
      </button>
    </>
  )
}
