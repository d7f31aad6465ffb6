import { QueryClientProvider, useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { BranchesView } from './branches/branches-view.tsx'
import { ChangesView } from './changes/changes-view.tsx'
import { focusComposer } from './composer/focus.ts'
import { ContextView } from './context/context-view.tsx'
import { Boundary } from './controls/boundary.tsx'
import { IconButton } from './controls/button.tsx'
import { NoticeList, NoticesProvider, useNotices } from './controls/notices.tsx'
import { RenameDialog } from './conversations/conversation-dialogs.tsx'
import { ConversationList, startConversation } from './conversations/conversation-list.tsx'
import { Help } from './help.tsx'
import { useShortcuts } from './keyboard.ts'
import { go, Link, type Place, usePlace, type View, views } from './location.tsx'
import { useAbout } from './scopes.ts'
import { explain, keys, queries, refresh, server } from './server.ts'
import { text } from './text.ts'
import { useTheme } from './theme.ts'
import { TimelineView } from './timeline/timeline-view.tsx'
import { isAsking } from './transcript/asking.ts'
import { TranscriptView } from './transcript/transcript-view.tsx'
import { type FeedView, useFeed } from './transcript/use-feed.ts'
import { Welcome } from './welcome.tsx'

export function App() {
  return (
    <QueryClientProvider client={queries}>
      <NoticesProvider>
        <Page />
      </NoticesProvider>
    </QueryClientProvider>
  )
}

function Page() {
  const place = usePlace()
  const { attempt } = useNotices()
  const about = useAbout()
  useEffect(() => {
    // The browser would leave the page for a file that misses its place.
    const stay = (event: DragEvent) => event.dataTransfer?.types.includes('Files') && event.preventDefault()
    for (const kind of ['dragover', 'drop'] as const) addEventListener(kind, stay)
    return () => {
      for (const kind of ['dragover', 'drop'] as const) removeEventListener(kind, stay)
    }
  }, [])
  const search = useRef<HTMLInputElement>(null)
  const [isListOpen, setListOpen] = useState(false)
  const [isHelpOpen, setHelpOpen] = useState(false)
  const [theme, nextTheme] = useTheme()

  const show = (view: View) => () => {
    if (place.conversationId !== null) go({ conversationId: place.conversationId, view })
  }
  useShortcuts({
    '?': () => setHelpOpen(true),
    '/': () => {
      setListOpen(true)
      search.current?.focus()
    },
    n: () => void attempt(startConversation),
    t: nextTheme,
    ...(isListOpen ? { Escape: () => setListOpen(false) } : {}),
    ...Object.fromEntries(views.map((view, index) => [String(index + 1), show(view)])),
  })

  return (
    <div className={isListOpen ? 'page list-open' : 'page'}>
      <a className="skip" href="#main">
        {text.skip}
      </a>
      <aside className="side">
        <header className="brand">
          <Link to={{}}>
            <img src="/icon.svg" alt="" width="24" height="24" />
            {text.name}
          </Link>
          <IconButton icon="theme" name={text.theme[theme]} onClick={nextTheme} />
          <button
            type="button"
            className="icon-button"
            title={text.help.name}
            aria-label={text.help.name}
            onClick={() => setHelpOpen(true)}
          >
            ?
          </button>
        </header>
        <ConversationList search={search} onChosen={() => setListOpen(false)} />
        <footer className="about">
          {about.data && (
            <>
              <span title={about.data.workspace_id}>{about.data.project}</span>
              <span className={about.data.model.is_demo ? 'model demo' : 'model'}>
                {about.data.model.is_demo ? text.demoModel : about.data.model.name}
              </span>
            </>
          )}
        </footer>
      </aside>
      <button
        type="button"
        className="shade"
        aria-label={text.closeList}
        tabIndex={-1}
        onClick={() => setListOpen(false)}
      />
      <main id="main" tabIndex={-1}>
        <IconButton
          className="open-list"
          icon="menu"
          name={text.openList}
          aria-expanded={isListOpen}
          onClick={() => setListOpen(!isListOpen)}
        />
        {place.conversationId === null ? (
          <Welcome isDemo={about.data?.model.is_demo ?? false} />
        ) : (
          <ConversationPage key={place.conversationId} place={place} id={place.conversationId} />
        )}
        <NoticeList />
      </main>
      {isHelpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </div>
  )
}

function ConversationPage({ place, id }: { place: Place; id: string }) {
  const feed = useFeed(id)
  const conversation = useQuery({
    queryKey: keys.conversation(id),
    queryFn: () => server.conversation(id),
  })
  const title = feed.transcript?.title ?? conversation.data?.title ?? text.conversations.untitled
  // Whoever opens a conversation wants to write.
  useEffect(() => {
    if (document.activeElement === document.body) focusComposer()
  }, [])
  const isWaiting = isWaitingForAnswer(feed)
  const [isRenaming, setRenaming] = useState(false)
  useStaleWork(feed)

  useEffect(() => {
    document.title = `${isWaiting ? '❓ ' : feed.queue?.active ? '● ' : ''}${title} · ${text.name}`
  }, [title, isWaiting, feed.queue?.active])

  if (feed.error !== null) {
    return (
      <div className="empty" role="alert">
        <h1>{text.problems.notShown}</h1>
        <p>{explain(feed.error)}</p>
        <Link to={{}}>{text.problems.back}</Link>
      </div>
    )
  }
  return (
    <>
      <header className="conversation-head">
        <h1>
          <span>{title}</span>
          {conversation.data && (
            <IconButton icon="edit" name={text.conversations.renameThis} onClick={() => setRenaming(true)} />
          )}
        </h1>
        <Connection feed={feed} isAsking={isWaiting} />
        <ViewTabs id={id} current={place.view} />
      </header>
      <div className="view">
        <Boundary key={place.view}>
          <CurrentView
            place={place}
            feed={feed}
            title={title}
            isUntitled={conversation.data?.title === null}
          />
        </Boundary>
      </div>
      {isRenaming && conversation.data && (
        <RenameDialog conversation={conversation.data} onClose={() => setRenaming(false)} />
      )}
    </>
  )
}

/** When a run has ended, or files were put back, what is shown of them is looked at again. */
function useStaleWork({ conversationId, transcript, queue }: FeedView): void {
  const ended = transcript?.entries.findLast(
    (entry) => (entry.type === 'run' && entry.endedAt !== null) || entry.type === 'mark',
  )
  const mark = ended ? `${ended.at} ${ended.upTo}` : ''
  useEffect(() => {
    if (mark === '') return
    refresh(conversationId)
    void queries.invalidateQueries({ queryKey: keys.responses(conversationId) })
    void queries.invalidateQueries({ queryKey: keys.memory(conversationId) })
  }, [conversationId, mark])
  const activity = `${queue?.active?.run_id ?? ''} ${queue?.items.length ?? 0}`
  useEffect(() => {
    void queries.invalidateQueries({ queryKey: keys.conversations })
  }, [activity])
}

function isWaitingForAnswer({ transcript, queue }: FeedView): boolean {
  const run = queue?.active ? transcript?.entries.findLast((entry) => entry.type === 'run') : undefined
  return run?.type === 'run' && isAsking(run)
}

function Connection({ feed, isAsking }: { feed: FeedView; isAsking: boolean }) {
  const isLost = feed.state === 'waiting'
  const isRunning = feed.queue?.active != null
  return (
    <p className={isLost ? 'connection lost' : isAsking ? 'connection asking' : 'connection'} role="status">
      {isLost
        ? text.connection.lost
        : isAsking
          ? text.connection.asking
          : isRunning
            ? text.connection.running
            : ''}
    </p>
  )
}

function ViewTabs({ id, current }: { id: string; current: View }) {
  return (
    <nav className="tabs" aria-label={text.views.name}>
      {views.map((view) => (
        <Link
          key={view}
          to={{ conversationId: id, view }}
          aria-current={view === current ? 'page' : undefined}
        >
          {text.views[view]}
        </Link>
      ))}
    </nav>
  )
}

function CurrentView({
  place,
  feed,
  title,
  isUntitled,
}: {
  place: Place
  feed: FeedView
  title: string
  isUntitled: boolean
}) {
  const id = feed.conversationId
  switch (place.view) {
    case 'transcript':
      return <TranscriptView feed={feed} title={title} isUntitled={isUntitled} />
    case 'changes':
      return <ChangesView conversationId={id} isRunning={feed.queue?.active != null} />
    case 'timeline':
      return (
        <TimelineView
          conversationId={id}
          head={feed.transcript?.head ?? null}
          epoch={feed.epoch}
          lastMessage={feed.transcript?.entries.findLast((entry) => entry.type === 'message')?.at ?? 0}
          at={place.at}
        />
      )
    case 'context':
      return (
        <ContextView
          conversationId={id}
          at={place.at}
          responseId={place.response}
          transcript={feed.transcript}
        />
      )
    case 'branches':
      return <BranchesView conversationId={id} other={place.other} />
  }
}
