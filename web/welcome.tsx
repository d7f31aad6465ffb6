import { isEmpty } from './composer/draft.ts'
import { changeDraft, unsaidOf } from './composer/drafts.ts'
import { Button } from './controls/button.tsx'
import { useToasts } from './controls/toasts.tsx'
import { startConversation } from './conversations/conversation-list.tsx'
import { useMay } from './scopes.ts'
import { text } from './text.ts'

/** The start page, shown when no conversation is open. */
export function Welcome({ isDemo }: { isDemo: boolean }) {
  const { attempt } = useToasts()
  const mayWrite = useMay('conversations:write')
  async function begin(content: string): Promise<void> {
    const id = await startConversation()
    // Keep text that the user has already typed there.
    if (isEmpty(unsaidOf(id).draft)) changeDraft(id, () => ({ content }))
  }
  return (
    <div className="empty">
      <img src="/icon.svg" alt="" width="64" height="64" />
      <h1>{text.welcome.title}</h1>
      <p>{text.welcome.what}</p>
      <Button look="main" icon="plus" disabled={!mayWrite} onClick={() => void attempt(startConversation)}>
        {text.conversations.new}
      </Button>
      {isDemo && mayWrite && (
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
