import { changeDraft } from './composer/drafts.ts'
import { Button } from './controls/button.tsx'
import { useNotices } from './controls/notices.tsx'
import { startConversation } from './conversations/conversation-list.tsx'
import { placeOf } from './location.tsx'
import { text } from './text.ts'

/** What is shown where no conversation is. */
export function Welcome({ isDemo }: { isDemo: boolean }) {
  const { attempt } = useNotices()
  async function begin(content: string): Promise<void> {
    await startConversation()
    const { conversationId } = placeOf(location.href)
    if (conversationId !== null) changeDraft(conversationId, () => ({ content }))
  }
  return (
    <div className="empty welcome">
      <img src="/icon.svg" alt="" width="64" height="64" />
      <h1>{text.welcome.title}</h1>
      <p>{text.welcome.what}</p>
      <Button look="main" icon="plus" onClick={() => void attempt(startConversation)}>
        {text.conversations.new}
      </Button>
      {isDemo && (
        <div className="demo-hints">
          <p>{text.welcome.demo}</p>
          <ul>
            {text.welcome.demoExamples.map((example) => (
              <li key={example}>
                <button type="button" onClick={() => void attempt(() => begin(example))}>
                  {example}
                </button>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  )
}
