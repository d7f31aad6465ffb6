import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import type { FileList } from '../../src/protocol/api/work.ts'
import type { Transcript } from '../../src/replay/transcript.ts'
import { BlameDialog } from '../changes/blame-dialog.tsx'
import { Button } from '../controls/button.tsx'
import { bytesOf } from '../format.ts'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { Counts, DiffView } from '../transcript/diff-view.tsx'
import { Highlighted, languageOf } from '../transcript/highlight.tsx'
import { isCommandRunning } from './running-commands.ts'

interface FilesThenProps {
  conversationId: string
  at: number
  isNow: boolean
  transcript: Transcript | null
}

/** Limits requests for files while the scrubber moves. */
const PAUSE_MS = 250
const SHOWN = 500

export function FilesThen({ conversationId, at: moving, isNow, transcript }: FilesThenProps) {
  const at = useSlower(moving)
  const [filter, setFilter] = useState('')
  const [chosen, setChosen] = useState<string | null>(null)
  const files = useQuery({
    queryKey: [...keys.files(conversationId), 'then', at, filter],
    queryFn: () => server.files(conversationId, { at, q: filter, limit: SHOWN }),
    placeholderData: keepPreviousData,
  })
  return (
    <section className="files-then" aria-label={text.timeline.files}>
      <header>
        <h2>{isNow ? text.timeline.filesNow : text.timeline.filesThen}</h2>
        <input
          type="search"
          value={filter}
          placeholder={text.timeline.filter}
          aria-label={text.timeline.filter}
          onChange={(event) => setFilter(event.target.value)}
        />
      </header>
      {files.isError && <p className="failure">{explain(files.error)}</p>}
      {!isNow && files.data?.checkpoint_id === null && <p className="note">{text.timeline.nowAsThen}</p>}
      {transcript && isCommandRunning(transcript) && (
        <p className="quiet note">{text.timeline.commandRunning}</p>
      )}
      {files.data && <Paths files={files.data} filter={filter} chosen={chosen} onChoose={setChosen} />}
      {chosen !== null && <FileThen key={chosen} conversationId={conversationId} at={at} path={chosen} />}
    </section>
  )
}

/** Throttles a value to one change per PAUSE_MS. */
function useSlower(value: number): number {
  const [followed, follow] = useState(value)
  const latest = useRef(value)
  latest.current = value
  const isBehind = followed !== value
  useEffect(() => {
    if (!isBehind) return
    const timer = setTimeout(() => follow(latest.current), PAUSE_MS)
    return () => clearTimeout(timer)
  }, [isBehind, followed])
  return followed
}

function Paths({
  files: { items, changed, unsure, total },
  filter,
  chosen,
  onChoose,
}: {
  files: FileList
  filter: string
  chosen: string | null
  onChoose(path: string | null): void
}) {
  const differing = new Map(changed.map((file) => [file.path, file]))
  const isMeant = (path: string) => filter === '' || path.toLowerCase().includes(filter.toLowerCase())
  // Changed files come first, because users look for those; files added later are listed, too.
  const first = changed.filter((file) => isMeant(file.path)).map((file) => file.path)
  const rest = items.filter((path) => !differing.has(path))
  return (
    <>
      <p className="quiet">{text.timeline.counts(total, changed.length)}</p>
      {unsure.map(({ path, reason }) => (
        <p key={path} className="note">
          {text.timeline.unsure(path, reason)}
        </p>
      ))}
      <ul className="paths" tabIndex={-1}>
        {[...first, ...rest].map((path) => {
          const change = differing.get(path)
          return (
            <li key={path}>
              <button
                type="button"
                aria-pressed={path === chosen}
                onClick={() => onChoose(path === chosen ? null : path)}
              >
                <code>{path}</code>
                {change && (
                  <>
                    <span className={`since ${change.status}`}>
                      {change.left_out === undefined
                        ? text.timeline.since[change.status]
                        : text.timeline.leftOutSince}
                    </span>
                    <Counts {...change} />
                  </>
                )}
              </button>
            </li>
          )
        })}
      </ul>
    </>
  )
}

function FileThen({ conversationId, at, path }: { conversationId: string; at: number; path: string }) {
  const [isDiff, setDiff] = useState(false)
  const [isBlamed, setBlamed] = useState(false)
  const file = useQuery({
    queryKey: [...keys.files(conversationId), 'text', at, path],
    queryFn: () => server.file(conversationId, { path, at }),
    placeholderData: keepPreviousData,
  })
  if (file.isPending) return <p className="loading">{text.looking}</p>
  if (file.isError) return <p className="failure">{explain(file.error)}</p>
  const { text: content, bytes, is_binary, change } = file.data
  return (
    <div className="file-then">
      <header>
        <h3>
          <code>{path}</code> {bytes !== null && <span className="quiet">{bytesOf(bytes)}</span>}
        </h3>
        <div className="choice" role="group" aria-label={text.timeline.howToShow}>
          <button type="button" aria-pressed={!isDiff} onClick={() => setDiff(false)}>
            {text.timeline.asThen}
          </button>
          <button type="button" aria-pressed={isDiff} onClick={() => setDiff(true)}>
            {text.timeline.toNow}
          </button>
        </div>
        <Button look="quiet" onClick={() => setBlamed(true)}>
          {text.blame.open}
        </Button>
      </header>
      {isBlamed && (
        <BlameDialog conversationId={conversationId} path={path} onClose={() => setBlamed(false)} />
      )}
      {isDiff ? (
        <ToNow change={change} path={path} />
      ) : bytes === null ? (
        <p className="quiet">{text.timeline.notThere}</p>
      ) : content === null ? (
        <p className="quiet">{is_binary ? text.diff.binary : text.diff.tooLarge}</p>
      ) : (
        <pre className="file-text" tabIndex={0}>
          <Highlighted code={content} language={languageOf(path)} />
        </pre>
      )}
    </div>
  )
}

function ToNow({
  change,
  path,
}: {
  change: { diff: string | null; is_binary: boolean } | null
  path: string
}) {
  if (!change) return <p className="quiet">{text.timeline.same}</p>
  if (change.diff === null)
    return <p className="quiet">{change.is_binary ? text.diff.binary : text.diff.tooLarge}</p>
  return <DiffView diff={change.diff} label={path} />
}
