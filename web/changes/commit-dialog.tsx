import { useQuery } from '@tanstack/react-query'
import { useRef, useState } from 'react'
import { Dialog } from '../controls/dialog.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'

/** Commits the last approved files to the user's repository, after showing what it would commit. */
export function CommitDialog({ conversationId, onClose }: { conversationId: string; onClose(): void }) {
  const { show } = useToasts()
  const [branch, setBranch] = useState('')
  const [message, setMessage] = useState<string | null>(null)
  const [runsHooks, setRunsHooks] = useState(false)
  const on = branch.trim() === '' ? {} : { branch: branch.trim() }
  const shown = useQuery({
    queryKey: [...keys.work(conversationId), 'commit', on],
    queryFn: () => server.commit(conversationId, { ...on, dry_run: true }),
    retry: false,
    gcTime: 0,
  })
  // A branch name that is refused leaves the rest of the dialog as it was.
  const last = useRef(shown.data)
  if (shown.data) last.current = shown.data
  const proposed = shown.data ?? last.current
  const written = message ?? proposed?.message ?? ''
  async function commit(): Promise<void> {
    const done = await server.commit(conversationId, {
      ...on,
      message: written,
      run_hooks: runsHooks,
    })
    show({ message: text.commit.done(done.files.length, done.branch, done.commit ?? ''), conversationId })
  }
  return (
    <Dialog
      title={text.commit.title}
      onClose={onClose}
      action={{ label: text.commit.action, run: commit, isReady: shown.isSuccess && written.trim() !== '' }}
    >
      <p>{text.commit.means}</p>
      {shown.isPending && <p>{text.looking}</p>}
      {shown.isError && <p className="failure">{explain(shown.error)}</p>}
      {proposed && (
        <>
          <p className="quiet">{text.commit.where(proposed.branch, proposed.author)}</p>
          <ul className="files-report">
            {proposed.files.map(({ path, change }) => (
              <li key={path}>
                <span className={`change ${change}`}>{text.changes.words[change]}</span> <code>{path}</code>
              </li>
            ))}
            {proposed.skipped.map(({ path, reason }) => (
              <li key={path}>{text.work.skipped(path, reason)}</li>
            ))}
          </ul>
        </>
      )}
      <label className="field">
        {text.commit.message}
        <textarea
          rows={5}
          value={written}
          maxLength={10_000}
          onChange={(event) => setMessage(event.target.value)}
        />
      </label>
      <label className="field">
        {text.commit.branch}
        <input value={branch} maxLength={200} onChange={(event) => setBranch(event.target.value)} />
      </label>
      {proposed && proposed.hooks.length > 0 && (
        <label>
          <input
            type="checkbox"
            checked={runsHooks}
            onChange={(event) => setRunsHooks(event.target.checked)}
          />{' '}
          {text.commit.hooks(proposed.hooks.map(({ path }) => path).join(', '))}
        </label>
      )}
    </Dialog>
  )
}
