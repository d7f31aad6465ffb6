import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { type RefObject, useDeferredValue, useState } from 'react'
import type { Conversation } from '../../src/protocol/api/conversations.ts'
import { focusComposer } from '../composer/focus.ts'
import { Button, IconButton } from '../controls/button.tsx'
import { Icon } from '../controls/icon.tsx'
import { More } from '../controls/more.tsx'
import { dateOf, whenOf } from '../format.ts'
import { Link, usePlace } from '../location.tsx'
import { useMay } from '../scopes.ts'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { Activity } from './activity.tsx'
import { DeleteConversationDialog, RenameDialog } from './conversation-dialogs.tsx'
import { inFamilyOrder } from './family-order.ts'
import { FoundMessages } from './found-messages.tsx'
import { startConversation } from './start-conversation.ts'

const PAGE = 50
/** Refetch interval: other clients start runs, too. */
const LOOK_AGAIN_MS = 2500

type OpenDialog = { type: 'rename' | 'delete'; conversation: Conversation }

export function ConversationList({
  search,
  onChosen,
}: {
  search: RefObject<HTMLInputElement | null>
  onChosen(): void
}) {
  const { conversationId } = usePlace()
  const [typed, setTyped] = useState('')
  const [dialog, setDialog] = useState<OpenDialog | null>(null)
  const q = useDeferredValue(typed.trim())
  const list = useInfiniteQuery({
    queryKey: [...keys.conversations, q],
    queryFn: ({ pageParam }) =>
      server.listConversations({
        limit: PAGE,
        ...(q === '' ? {} : { q }),
        ...(pageParam === null ? {} : { cursor: pageParam }),
      }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
    refetchInterval: LOOK_AGAIN_MS,
  })
  const mayWrite = useMay('conversations:write')
  const found = list.data?.pages.flatMap((page) => page.items) ?? []
  const listed = q === '' ? inFamilyOrder(found) : found.map((conversation) => ({ conversation, depth: 0 }))

  return (
    <nav className="conversations" aria-label={text.conversations.name}>
      <div className="conversations-head">
        <label className="search">
          <Icon name="search" />
          <input
            ref={search}
            type="search"
            value={typed}
            placeholder={text.conversations.search}
            aria-label={text.conversations.search}
            onChange={(event) => setTyped(event.target.value)}
          />
        </label>
        <Button
          look="main"
          icon="plus"
          disabled={!mayWrite}
          onClick={() => {
            onChosen()
            startConversation()
          }}
        >
          {text.conversations.new}
        </Button>
      </div>
      {list.isError && <p className="failure">{explain(list.error)}</p>}
      {list.isSuccess && found.length === 0 && (
        <p className="quiet">{q === '' ? text.conversations.none : text.conversations.notFound(q)}</p>
      )}
      <ul>
        {listed.map(({ conversation, depth }) => (
          <li key={conversation.id} className={`depth-${Math.min(depth, 6)}`}>
            <Link
              to={{ conversationId: conversation.id }}
              aria-current={conversation.id === conversationId ? 'page' : undefined}
              onClick={() => {
                onChosen()
                // Wait until the composer is rendered.
                setTimeout(focusComposer)
              }}
            >
              <span className="title">
                {depth > 0 && <Icon name="fork" />}
                {conversation.title ?? text.conversations.untitled}
              </span>
              <span className="when">
                <time dateTime={conversation.updated_at} title={dateOf(conversation.updated_at)}>
                  {whenOf(conversation.updated_at)}
                </time>
                <Activity conversation={conversation} />
              </span>
            </Link>
            {mayWrite && (
              <span className="conversation-actions">
                <IconButton
                  icon="edit"
                  name={text.conversations.rename(titleOf(conversation))}
                  onClick={() => setDialog({ type: 'rename', conversation })}
                />
                <IconButton
                  icon="trash"
                  name={text.conversations.delete(titleOf(conversation))}
                  onClick={() => setDialog({ type: 'delete', conversation })}
                />
              </span>
            )}
          </li>
        ))}
      </ul>
      <More list={list} />
      {q !== '' && <FoundMessages q={q} onChosen={onChosen} />}
      {dialog?.type === 'rename' && (
        <RenameDialog conversation={dialog.conversation} onClose={() => setDialog(null)} />
      )}
      {dialog?.type === 'delete' && (
        <DeleteConversationDialog conversation={dialog.conversation} onClose={() => setDialog(null)} />
      )}
    </nav>
  )
}

function titleOf({ title }: Conversation): string {
  return title ?? text.conversations.untitled
}
