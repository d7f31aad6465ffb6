import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useToasts } from '../controls/toasts.tsx'
import { useNotifications } from '../notifications.ts'
import { useAbout, useMay } from '../scopes.ts'
import { keys, queries, server } from '../server.ts'
import { text } from '../text.ts'
import { focusComposer } from './focus.ts'
import { RulesDialog } from './rules-dialog.tsx'

const LIST_MS = 60_000

const modes = ['ask', 'edit', 'read_only'] as const

export interface Choice {
  agent: string | null
  model: string | null
  mode: (typeof modes)[number]
}

/** The options of a conversation. A change applies to its next message. */
export function ConversationOptions({ conversationId }: { conversationId: string }) {
  const { data: conversation } = useQuery({
    queryKey: keys.conversation(conversationId),
    queryFn: () => server.conversation(conversationId),
  })

  async function change(settings: Partial<Choice>): Promise<void> {
    await server.changeConversation(conversationId, settings)
    await queries.invalidateQueries({ queryKey: keys.conversation(conversationId) })
  }

  const { agent = null, model = null, mode = 'ask' } = conversation ?? {}
  return <Options chosen={{ agent, model, mode }} conversationId={conversationId} onChange={change} />
}

/** The agent, the model and the mode, next to the composer. A hosted agent has its own model. */
export function Options({
  chosen: { agent: chosenAgent, model, mode },
  conversationId,
  onChange,
}: {
  chosen: Choice
  conversationId?: string
  onChange(settings: Partial<Choice>): Promise<void>
}) {
  const { attempt } = useToasts()
  const about = useAbout()
  const models = useQuery({ queryKey: keys.models, queryFn: () => server.models(), staleTime: LIST_MS })
  const listed = (models.data?.items ?? []).map(({ name, models: all }) => ({
    provider: name,
    models: all.map((one) => (name === 'demo' ? one : `${name}/${one}`)),
  }))
  const agents = useQuery({ queryKey: keys.agents, queryFn: () => server.agents(), staleTime: LIST_MS })
  const agent = chosenAgent ?? ''
  const chosen = model ?? ''
  const isListed = chosen === '' || listed.some((one) => one.models.includes(chosen))
  const problems = (models.data?.items ?? []).flatMap(({ problem }) => problem ?? [])
  const problem = about.data?.model.problem ?? null
  const mayChangeFiles = useMay('workspace:write')
  const notifications = useNotifications()
  const [isRulesOpen, setRulesOpen] = useState(false)

  return (
    <div className="composer-options">
      <select
        aria-label={text.composer.agent}
        title={text.composer.agent}
        value={agent}
        disabled={!mayChangeFiles && agent === ''}
        onChange={(event) => {
          const { value } = event.target
          focusComposer()
          void attempt(() => onChange({ agent: value === '' ? null : value }))
        }}
      >
        <option value="">{text.composer.ownAgent}</option>
        {(agents.data?.items ?? []).map(({ name, title, is_installed, install }) => (
          <option key={name} value={name} disabled={!is_installed && name !== agent} title={install ?? ''}>
            {is_installed ? title : text.composer.missingAgent(title)}
          </option>
        ))}
      </select>
      {agent === '' && (
        <select
          aria-label={text.composer.model}
          title={problems.join('\n') || text.composer.model}
          value={chosen}
          onChange={(event) => {
            const { value } = event.target
            focusComposer()
            void attempt(() => onChange({ model: value === '' ? null : value }))
          }}
        >
          <option value="">{text.composer.defaultModel(about.data?.model.name ?? '')}</option>
          {!isListed && <option value={chosen}>{chosen}</option>}
          {listed.map(
            ({ provider, models: names }) =>
              names.length > 0 && (
                <optgroup key={provider} label={provider}>
                  {names.map((name) => (
                    <option key={name} value={name}>
                      {name}
                    </option>
                  ))}
                </optgroup>
              ),
          )}
        </select>
      )}
      <select
        aria-label={text.composer.mode}
        title={text.composer.mode}
        value={mode}
        onChange={(event) => {
          const next = event.target.value as Choice['mode']
          focusComposer()
          void attempt(() => onChange({ mode: next }))
        }}
      >
        {modes.map((one) => (
          <option key={one} value={one} disabled={one === 'edit' && !mayChangeFiles}>
            {text.composer.modes[one]}
          </option>
        ))}
      </select>
      {mayChangeFiles && conversationId !== undefined && (
        <button type="button" className="option" onClick={() => setRulesOpen(true)}>
          {text.composer.rules}
        </button>
      )}
      {notifications.isOffered && (
        <button
          type="button"
          className="option"
          disabled={notifications.isOn}
          onClick={() => {
            focusComposer()
            void attempt(notifications.turnOn)
          }}
        >
          {notifications.isOn ? text.composer.notified : text.composer.notify}
        </button>
      )}
      {problem !== null && <span className="problem">{problem}</span>}
      {isRulesOpen && conversationId !== undefined && (
        <RulesDialog conversationId={conversationId} onClose={() => setRulesOpen(false)} />
      )}
    </div>
  )
}
