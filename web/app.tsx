import { QueryClientProvider, useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import { BranchesView } from './branches/branches-view.tsx'
import { ChangesView } from './changes/changes-view.tsx'
import { focusComposer } from './composer/focus.ts'
import { ContextView } from './context/context-view.tsx'
import { Boundary } from './controls/boundary.tsx'
import { Button, IconButton } from './controls/button.tsx'
import { ToastList, ToastsProvider, useToasts } from './controls/toasts.tsx'
import { RenameDialog } from './conversations/conversation-dialogs.tsx'
import { ConversationList } from './conversations/conversation-list.tsx'
import { startConversation } from './conversations/start-conversation.ts'
import { Help } from './help.tsx'
import { HomeView } from './home/home-view.tsx'
import { useSearchKey, useShortcuts } from './keyboard.ts'
import { go, Link, type Place, usePlace, type View, views } from './location.tsx'
import { useNotice } from './notifications.ts'
import { ProjectSwitcher } from './project-switcher.tsx'
import { RestoreProvider } from './restoring/ask-restore.tsx'
import { useAbout, useMay } from './scopes.ts'
import { SearchDialog } from './search/search-dialog.tsx'
import { explain, keys, queries, refresh, server } from './server.ts'
import { ShareDialog } from './sharing/share-dialog.tsx'
import { text } from './text.ts'
import { useTheme } from './theme.ts'
import { TimelineView } from './timeline/timeline-view.tsx'
import { isAsking } from './transcript/asking.ts'
import { OpenPartsProvider } from './transcript/open-parts.tsx'
import { TranscriptView } from './transcript/transcript-view.tsx'
import { type FeedView, useFeed } from './transcript/use-feed.ts'

export function App() {
  return (
    <QueryClientProvider client={queries}>
      <ToastsProvider>
        <Page />
      </ToastsProvider>
    </QueryClientProvider>
  )
}

function Page() {
  const place = usePlace()
  const toasts = useToasts()
  const about = useAbout()
  useEffect(() => {
    // Without this, the browser navigates to a file that is dropped outside the composer.
    function stay(event: DragEvent): void {
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      const hasPlace = document.querySelector('.composer') || document.querySelector('dialog[open]')
      if (event.type === 'drop' && !hasPlace) toasts.show({ message: text.composer.dropElsewhere })
    }
    for (const kind of ['dragover', 'drop'] as const) addEventListener(kind, stay)
    return () => {
      for (const kind of ['dragover', 'drop'] as const) removeEventListener(kind, stay)
    }
  }, [toasts])
  const search = useRef<HTMLInputElement>(null)
  const [isListOpen, setListOpen] = useState(false)
  const [isHelpOpen, setHelpOpen] = useState(false)
  const [isSearching, setSearching] = useState(false)
  useSearchKey(() => setSearching(true))
  const [tries, setTries] = useState(0)
  const [theme, nextTheme] = useTheme()
  const [lastPlace, setLastPlace] = useState(place)
  if (place !== lastPlace) {
    setLastPlace(place)
    setListOpen(false)
  }

  const show = (view: View) => () => {
    if (place.conversationId !== null) go({ conversationId: place.conversationId, view })
  }
  useShortcuts({
    '?': () => setHelpOpen(true),
    '/': () => {
      // Render the list first: a hidden input can't receive focus.
      flushSync(() => setListOpen(true))
      search.current?.focus()
    },
    '+': startConversation,
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
          <IconButton icon="search" name={text.search.open} onClick={() => setSearching(true)} />
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
              <ProjectSwitcher name={about.data.project} />
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
        <Readiness />
        {place.conversationId === null ? (
          <HomeView isDemo={about.data?.model.is_demo ?? false} />
        ) : (
          <ConversationPage
            key={`${place.conversationId} ${tries}`}
            place={place}
            id={place.conversationId}
            onAgain={() => setTries(tries + 1)}
          />
        )}
        <ToastList />
      </main>
      {isSearching && (
        <SearchDialog conversationId={place.conversationId} onClose={() => setSearching(false)} />
      )}
      {isHelpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </div>
  )
}

function ConversationPage({ place, id, onAgain }: { place: Place; id: string; onAgain(): void }) {
  const feed = useFeed(id)
  const conversation = useQuery({
    queryKey: keys.conversation(id),
    queryFn: () => server.conversation(id),
  })
  const title = feed.transcript?.title ?? conversation.data?.title ?? text.conversations.untitled
  // Focus the composer when a conversation opens.
  useEffect(() => {
    if (document.activeElement === document.body) focusComposer()
  }, [])
  const mayWrite = useMay('conversations:write')
  const isWaiting = isWaitingForAnswer(feed)
  const [isRenaming, setRenaming] = useState(false)
  const [isSharing, setSharing] = useState(false)
  useStaleWork(feed)

  useEffect(() => {
    document.title = `${isWaiting ? '❓ ' : feed.queue?.active ? '● ' : ''}${title} · ${text.name}`
    return () => {
      document.title = text.name
    }
  }, [title, isWaiting, feed.queue?.active])

  const isActive = feed.queue?.active != null
  const wasActive = useRef(false)
  const [hasFinished, setFinished] = useState(false)
  useEffect(() => {
    setFinished(wasActive.current && !isActive)
    wasActive.current = isActive
  }, [isActive])
  const { asking, finished } = text.notifications
  useNotice(title, isWaiting ? asking : hasFinished ? finished : null)

  if (feed.error !== null) {
    return (
      <div className="empty" role="alert">
        <h1>{text.problems.notShown}</h1>
        <p>{explain(feed.error)}</p>
        <Button icon="restore" onClick={onAgain}>
          {text.problems.again}
        </Button>
        <Link to={{}}>{text.problems.back}</Link>
      </div>
    )
  }
  return (
    <>
      <header className="conversation-head">
        <h1>
          <span>{title}</span>
          {conversation.data && mayWrite && (
            <IconButton icon="edit" name={text.conversations.renameThis} onClick={() => setRenaming(true)} />
          )}
          <IconButton icon="share" name={text.share.open} onClick={() => setSharing(true)} />
        </h1>
        <Connection feed={feed} isAsking={isWaiting} />
        <ViewTabs id={id} current={place.view} />
      </header>
      <div className="view">
        <OpenPartsProvider>
          <RestoreProvider conversationId={id} isRunning={feed.queue?.active != null}>
            <Boundary key={place.view}>
              <CurrentView place={place} feed={feed} title={title} />
            </Boundary>
          </RestoreProvider>
        </OpenPartsProvider>
      </div>
      {isSharing && <ShareDialog conversationId={id} title={title} onClose={() => setSharing(false)} />}
      {isRenaming && conversation.data && (
        <RenameDialog conversation={conversation.data} onClose={() => setRenaming(false)} />
      )}
    </>
  )
}

/** Refetches queries after a run ends or files are restored. */
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
  // A run sends several model requests, so refetch the responses after each item.
  const run = transcript?.entries.findLast((entry) => entry.type === 'run')
  const step = run?.type === 'run' ? `${run.runId} ${run.items.length}` : ''
  useEffect(() => {
    void queries.invalidateQueries({ queryKey: keys.responses(conversationId) })
  }, [conversationId, step])
  const activity = `${queue?.active?.run_id ?? ''} ${queue?.items.length ?? 0}`
  useEffect(() => {
    void queries.invalidateQueries({ queryKey: keys.conversations })
    void queries.invalidateQueries({ queryKey: keys.conversation(conversationId) })
  }, [conversationId, activity])
}

function isWaitingForAnswer({ transcript, queue }: FeedView): boolean {
  const run = queue?.active ? transcript?.entries.findLast((entry) => entry.type === 'run') : undefined
  return run?.type === 'run' && isAsking(run)
}

const LOOK_MS = 10_000
const LOOK_AGAIN_MS = 3000

/** Shows why the server can't store data; an open stream does not reveal that. */
function Readiness() {
  const { data: reason } = useQuery({
    queryKey: keys.ready,
    queryFn: () => server.notReady(),
    refetchInterval: (query) => (query.state.data ? LOOK_AGAIN_MS : LOOK_MS),
    retry: false,
  })
  return reason ? (
    <p className="not-ready" role="alert">
      {text.connection.notReady(reason)}
    </p>
  ) : null
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
  const tabs = useRef<HTMLElement>(null)
  // Narrow screens show only some of them.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another tab is current.
  useEffect(() => {
    tabs.current?.querySelector('[aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' })
  }, [current])
  return (
    <nav ref={tabs} className="tabs" aria-label={text.views.name}>
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

function CurrentView({ place, feed, title }: { place: Place; feed: FeedView; title: string }) {
  const id = feed.conversationId
  switch (place.view) {
    case 'transcript':
      return <TranscriptView key={place.at} feed={feed} title={title} at={place.at} />
    case 'changes':
      return <ChangesView conversationId={id} isRunning={feed.queue?.active != null} />
    case 'timeline':
      return (
        <TimelineView
          conversationId={id}
          head={feed.transcript?.head ?? null}
          cutCount={feed.cutCount}
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
