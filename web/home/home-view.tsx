import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { Composer } from '../composer/composer.tsx'
import { type Choice, Options } from '../composer/conversation-options.tsx'
import { emptyDraft, isEmpty } from '../composer/draft.ts'
import { changeDraft, NEW, unsaidOf } from '../composer/drafts.ts'
import { focusComposer } from '../composer/focus.ts'
import { sendAlso } from '../composer/outbox.ts'
import { Button } from '../controls/button.tsx'
import { Icon } from '../controls/icon.tsx'
import { Activity } from '../conversations/activity.tsx'
import { emptyConversation } from '../conversations/start-conversation.ts'
import { dateOf, whenOf } from '../format.ts'
import { InsightsDialog } from '../insights/insights-dialog.tsx'
import { go, Link } from '../location.tsx'
import { useMay } from '../scopes.ts'
import { keys, refresh, server } from '../server.ts'
import { ImportButton } from '../sharing/import-button.tsx'
import { text } from '../text.ts'

const RECENT = 6
const LOOK_AGAIN_MS = 2500

/** The start page: a composer for a new conversation, and the recent ones. */
export function HomeView({ isDemo }: { isDemo: boolean }) {
  const mayWrite = useMay('conversations:write')
  const [isCounting, setCounting] = useState(false)
  const [chosen, setChosen] = useState<Choice>({ agent: null, model: null, mode: 'ask' })
  useEffect(() => {
    if (document.activeElement === document.body) focusComposer()
  }, [])

  async function send(): Promise<void> {
    const { draft } = unsaidOf(NEW)
    if (draft.content.trim() === '') return
    const id = await emptyConversation()
    await server.changeConversation(id, chosen)
    const sent = sendAlso(id, draft)
    changeDraft(NEW, emptyDraft)
    go({ conversationId: id })
    await sent.finally(() => refresh(id))
  }

  return (
    <div className="home">
      <div className="home-start">
        <h1>{text.home.title}</h1>
        <Composer
          conversationId={NEW}
          queue={null}
          onSend={send}
          options={
            <Options
              chosen={chosen}
              onChange={async (part) => setChosen((before) => ({ ...before, ...part }))}
            />
          }
        />
        {isDemo && mayWrite && <DemoHints />}
        <p className="quiet">{text.home.what}</p>
      </div>
      <Recent />
      <p className="home-more">
        <ImportButton />
        <Button look="quiet" onClick={() => setCounting(true)}>
          {text.insights.open}
        </Button>
      </p>
      {isCounting && <InsightsDialog onClose={() => setCounting(false)} />}
    </div>
  )
}

function DemoHints() {
  return (
    <div className="demo-hints">
      <p className="quiet">{text.home.demo}</p>
      <ul>
        {text.home.demoExamples.map(({ label, content }) => (
          <li key={label}>
            <button
              type="button"
              title={content}
              onClick={() => {
                // Keep text that the user has already typed.
                if (isEmpty(unsaidOf(NEW).draft)) changeDraft(NEW, () => ({ content }))
                focusComposer()
              }}
            >
              {label}
            </button>
          </li>
        ))}
      </ul>
    </div>
  )
}

function Recent() {
  const { data } = useQuery({
    queryKey: [...keys.conversations, 'recent'],
    queryFn: () => server.listConversations({ limit: RECENT }),
    refetchInterval: LOOK_AGAIN_MS,
  })
  const begun = (data?.items ?? []).filter(({ title }) => title !== null)
  if (begun.length === 0) return null
  return (
    <section className="recent" aria-labelledby="recent">
      <h2 id="recent">{text.home.recent}</h2>
      <ul>
        {begun.map((conversation) => (
          <li key={conversation.id}>
            <Link to={{ conversationId: conversation.id }}>
              <span className="title">
                {conversation.parent && <Icon name="fork" />}
                {conversation.title}
              </span>
              <span className="when">
                <Activity conversation={conversation} />
                <time dateTime={conversation.updated_at} title={dateOf(conversation.updated_at)}>
                  {whenOf(conversation.updated_at)}
                </time>
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  )
}
