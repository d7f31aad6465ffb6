import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Conversation } from '../../src/protocol/api/conversations.ts'
import type { DiffView as DiffAnswer, SessionView } from '../../src/protocol/api/work.ts'
import { Button } from '../controls/button.tsx'
import { Foldable } from '../controls/foldable.tsx'
import { dateOf } from '../format.ts'
import { useAskRestore } from '../restoring/ask-restore.tsx'
import { useMay } from '../scopes.ts'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { Counts, DiffView } from '../transcript/diff-view.tsx'
import { BlameDialog } from './blame-dialog.tsx'
import { ChangeWord } from './change-word.tsx'
import { Checkpoints } from './checkpoints.tsx'
import { CommitDialog } from './commit-dialog.tsx'
import { Operations } from './operations.tsx'
import { AdoptDialog, ApproveDialog, ResetDialog } from './work-dialogs.tsx'

type ChangedFile = DiffAnswer['files'][number]
/** Refetch interval: editors and other conversations change the same files. */
const LOOK_AGAIN_MS = 5000

/** The work session: the changes since the last approval, with approve and reset. */
export function ChangesView({ conversationId, isRunning }: { conversationId: string; isRunning: boolean }) {
  const [asked, setAsked] = useState<'approve' | 'reset' | 'adopt' | 'commit' | null>(null)
  const [blamed, setBlamed] = useState<string | null>(null)
  const askRestore = useAskRestore()
  const mayChange = useMay('workspace:write')
  const session = useQuery({
    queryKey: [...keys.work(conversationId), 'session'],
    queryFn: () => server.session(conversationId),
    placeholderData: keepPreviousData,
    refetchInterval: LOOK_AGAIN_MS,
  })
  const parent = useParentWithOtherFiles(conversationId)
  const diff = useQuery({
    queryKey: [...keys.work(conversationId), 'diff', session.data?.changed_files],
    queryFn: () => server.diff(conversationId),
    placeholderData: keepPreviousData,
  })
  if (session.isPending) return <p className="loading">{text.looking}</p>
  if (session.isError) return <p className="failure">{explain(session.error)}</p>
  const { active_session, changed_files, sessions, failed_change, rescued } = session.data
  const sum = (part: 'additions' | 'deletions') =>
    changed_files.reduce((total, file) => total + file[part], 0)
  const close = () => setAsked(null)
  return (
    <div className="changes scrolls">
      <header className="panel-head">
        <div>
          <h2>{text.changes.title(active_session)}</h2>
          <p className="quiet">
            {changed_files.length === 0 ? (
              text.changes.none
            ) : (
              <>
                {text.changes.count(changed_files.length)}{' '}
                <Counts additions={sum('additions')} deletions={sum('deletions')} />
              </>
            )}
          </p>
        </div>
        <div className="panel-actions">
          <Button
            look="main"
            icon="check"
            disabled={isRunning || !mayChange || changed_files.length === 0}
            onClick={() => setAsked('approve')}
          >
            {text.approve.open}
          </Button>
          <Button
            look="danger"
            icon="restore"
            disabled={isRunning || !mayChange || changed_files.length === 0}
            onClick={() => setAsked('reset')}
          >
            {text.reset.open}
          </Button>
          {session.data.last_approved_at !== null && !parent && (
            <Button disabled={!mayChange} onClick={() => setAsked('commit')}>
              {text.commit.open}
            </Button>
          )}
        </div>
        {isRunning && <p className="quiet">{text.changes.busy}</p>}
        {!mayChange && <p className="quiet">{text.changes.mayNot}</p>}
      </header>
      {parent && (
        <p className="adopt">
          {text.adopt.own}{' '}
          <Button icon="fork" disabled={isRunning || !mayChange} onClick={() => setAsked('adopt')}>
            {text.adopt.into(parent.title)}
          </Button>
        </p>
      )}
      {failed_change && (
        <FailedChange
          failed={failed_change}
          isOwn={failed_change.conversation_id === conversationId}
          onRestore={askRestore}
        />
      )}
      {diff.isError && <p className="failure">{explain(diff.error)}</p>}
      <ChangedFiles
        files={diff.data?.files ?? []}
        onBlame={setBlamed}
        by={new Map(changed_files.map(({ path, by }) => [path, authorsOf(by, conversationId)]))}
      />
      {rescued.length > 0 && <RescuedFiles files={rescued} />}
      <h2>{text.changes.sessions}</h2>
      <ul className="sessions">
        {sessions.toReversed().map(({ name, status, closed_at, checkpoint_count }) => (
          <li key={name}>
            <strong>{name}</strong>{' '}
            <span className={`session-status ${status}`}>{text.changes.status[status]}</span>{' '}
            <span className="quiet">
              {text.changes.checkpoints(checkpoint_count)}
              {closed_at !== null && ` · ${dateOf(closed_at)}`}
            </span>
          </li>
        ))}
      </ul>
      <Operations conversationId={conversationId} />
      <Checkpoints conversationId={conversationId} onRestore={askRestore} />
      {asked === 'approve' && <ApproveDialog {...{ conversationId, isRunning }} onClose={close} />}
      {asked === 'adopt' && parent && (
        <AdoptDialog {...{ conversationId, isRunning }} parentId={parent.id} onClose={close} />
      )}
      {asked === 'commit' && <CommitDialog conversationId={conversationId} onClose={close} />}
      {blamed !== null && (
        <BlameDialog conversationId={conversationId} path={blamed} onClose={() => setBlamed(null)} />
      )}
      {asked === 'reset' && <ResetDialog {...{ conversationId, isRunning }} onClose={close} />}
    </div>
  )
}

/** The conversation that this one was forked from, if each has its own files. */
function useParentWithOtherFiles(conversationId: string): Conversation | null {
  const own = useQuery({
    queryKey: keys.conversation(conversationId),
    queryFn: () => server.conversation(conversationId),
  })
  const parentId = own.data?.parent?.conversation_id ?? ''
  const parent = useQuery({
    queryKey: keys.conversation(parentId),
    queryFn: () => server.conversation(parentId),
    enabled: parentId !== '',
    // A deleted parent has no files to change.
    retry: false,
  })
  if (!own.data || !parent.data || parent.data.workspace_id === null) return null
  return own.data.workspace_id === parent.data.workspace_id ? null : parent.data
}

/** A file change that failed midway, with a button that restores the previous files. */
function FailedChange({
  failed,
  isOwn,
  onRestore,
}: {
  failed: NonNullable<SessionView['failed_change']>
  isOwn: boolean
  onRestore(checkpointId: string): void
}) {
  const { kind, reason, safety_checkpoint: safety } = failed
  return (
    <div className="failure" role="alert">
      <p>
        <strong>{text.changes.failed[kind]}</strong> {reason}
      </p>
      {isOwn && safety !== null && (
        <Button icon="restore" onClick={() => onRestore(safety)}>
          {text.changes.failedAction}
        </Button>
      )}
    </div>
  )
}

function RescuedFiles({ files }: { files: SessionView['rescued'] }) {
  return (
    <>
      <h2>{text.changes.rescued}</h2>
      <p className="quiet">{text.changes.rescuedMeans}</p>
      <ul>
        {files.map(({ path, file }) => (
          <li key={file}>
            <code>{path}</code> <span className="quiet">{file}</span>
          </li>
        ))}
      </ul>
    </>
  )
}

/** Above these limits diffs stay collapsed, because they are slow to render. */
const OPEN_FILES = 20
const OPEN_LINES = 1500

type By = SessionView['changed_files'][number]['by']

/** Describes who changed a file. */
function authorsOf(by: By, conversationId: string): string {
  const { by: words } = text.changes
  const nameOf = ({ conversation_id, title }: By[number]) => {
    if (conversation_id === conversationId) return words.this
    if (conversation_id === null) return words.other
    return title === null ? words.untitled : `“${title}”`
  }
  if (by.length === 0) return words.none
  return by.map((one) => words[one.how](nameOf(one))).join('; ')
}

function whyNoDiff({ left_out, is_binary, is_too_large }: ChangedFile): string {
  if (left_out !== undefined) return text.changes.whyLeftOut(left_out)
  return is_binary ? text.diff.binary : is_too_large ? text.diff.tooLarge : text.diff.none
}

export function ChangedFiles({
  files,
  by,
  onBlame,
}: {
  files: readonly ChangedFile[]
  by?: ReadonlyMap<string, string>
  /** Shows who wrote the lines of a file. */
  onBlame?(path: string): void
}) {
  const lines = files.reduce((sum, { additions, deletions }) => sum + additions + deletions, 0)
  const isOpen = files.length <= OPEN_FILES && lines <= OPEN_LINES
  return files.map((file) => (
    <ChangedFileCard
      key={file.path}
      file={file}
      by={by?.get(file.path)}
      isOpenByItself={isOpen}
      onBlame={onBlame}
    />
  ))
}

function ChangedFileCard({
  file,
  by,
  isOpenByItself,
  onBlame,
}: {
  file: ChangedFile
  by: string | undefined
  isOpenByItself: boolean
  onBlame: ((path: string) => void) | undefined
}) {
  const [isOpen, setOpen] = useState(isOpenByItself)
  const heading = (
    <>
      <ChangeWord file={file} />
      <code>{file.path}</code>
      <Counts additions={file.additions} deletions={file.deletions} />
      {by !== undefined && <span className="quiet by">{by}</span>}
    </>
  )
  return (
    <Foldable className="changed-file" isOpen={isOpen} onToggle={() => setOpen(!isOpen)} heading={heading}>
      {file.diff === null ? (
        <p className="quiet">{whyNoDiff(file)}</p>
      ) : (
        <DiffView diff={file.diff} label={file.path} />
      )}
      {onBlame && file.status !== 'deleted' && !file.is_binary && (
        <Button look="quiet" onClick={() => onBlame(file.path)}>
          {text.blame.open}
        </Button>
      )}
    </Foldable>
  )
}
