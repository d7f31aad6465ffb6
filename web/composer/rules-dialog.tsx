import { useQuery } from '@tanstack/react-query'
import { visibleText } from '../../src/protocol/visible-text.ts'
import { Button } from '../controls/button.tsx'
import { Dialog } from '../controls/dialog.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { timeOf } from '../format.ts'
import { explain, keys, queries, server } from '../server.ts'
import { text } from '../text.ts'

/** Every rule, each with a button that removes it. */
export function RulesDialog({ conversationId, onClose }: { conversationId: string; onClose(): void }) {
  const { attempt } = useToasts()
  const rules = useQuery({ queryKey: keys.rules, queryFn: () => server.rules() })
  const items = rules.data?.items ?? []
  const whereOf = (id: string | null) =>
    id === null ? '' : ` · ${id === conversationId ? text.rules.here : text.rules.elsewhere}`

  async function remove(id: string): Promise<void> {
    await server.removeRule(id)
    await queries.invalidateQueries({ queryKey: keys.rules })
  }

  return (
    <Dialog title={text.rules.title} onClose={onClose}>
      <p className="quiet">{rules.isSuccess && items.length === 0 ? text.rules.none : text.rules.intro}</p>
      {rules.isError && <p className="failure">{explain(rules.error)}</p>}
      <ul className="rules">
        {items.map((rule) => (
          <li key={rule.rule_id}>
            <div>
              <strong>{rule.tool_name}</strong> {text.rules.match[rule.match]}
              {whereOf(rule.conversation_id)}
              {text.tools.granted(rule.grant)}
              {rule.subject !== '' && <pre tabIndex={0}>{visibleText(rule.subject)}</pre>}
              <span className="quiet">{text.rules.by(rule.by, timeOf(rule.created_at))}</span>
            </div>
            <Button look="danger" icon="close" onClick={() => void attempt(() => remove(rule.rule_id))}>
              {text.rules.remove}
            </Button>
          </li>
        ))}
      </ul>
    </Dialog>
  )
}
