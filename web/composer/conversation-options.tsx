import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { PatchConversation } from '../../src/protocol/api/conversations.ts'
import { useToasts } from '../controls/toasts.tsx'
import { useNotifications } from '../notifications.ts'
import { useAbout, useMay } from '../scopes.ts'
import { keys, queries, server } from '../server.ts'
import { text } from '../text.ts'
import { focusComposer } from './focus.ts'
import { RulesDialog } from './rules-dialog.tsx'

const LIST_MS = 60_000

const modes = ['ask', 'edit', 'read_only'] as const

/** The agent, the model and the mode of the conversation, next to the composer. A hosted agent has its own model. A change applies to the next message. */
export function ConversationOptions({ conversationId }: { conversationId: string }) {
  const { attempt } = useToasts()
  const about = useAbout()
  const models = useQuery({ queryKey: keys.models, queryFn: () => server.models(), staleTime: LIST_MS })
  const { data: conversation } = useQuery({
    queryKey: keys.conversation(conversationId),
    queryFn: () => server.conversation(conversationId),
  })
  const listed = (models.data?.items ?? []).map(({ name, models: all }) => ({
    provider: name,
    models: all.map((model) => (name === 'demo' ? model : `${name}/${model}`)),
  }))
  const agents = useQuery({ queryKey: keys.agents, queryFn: () => server.agents(), staleTime: LIST_MS })
  const agent = conversation?.agent ?? ''
  const chosen = conversation?.model ?? ''
  const isListed = chosen === '' || listed.some((one) => one.models.includes(chosen))
  const problems = (models.data?.items ?? []).flatMap(({ problem }) => problem ?? [])
  const problem = about.data?.model.problem ?? null

  const mayChangeFiles = useMay('workspace:write')
  const notifications = useNotifications()
  const [isRulesOpen, setRulesOpen] = useState(false)

  async function change(settings: PatchConversation): Promise<void> {
    await server.changeConversation(conversationId, settings)
    await queries.invalidateQueries({ queryKey: keys.conversation(conversationId) })
  }

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
          void attempt(() => change({ agent: value === '' ? null : value }))
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
            void attempt(() => change({ model: value === '' ? null : value }))
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
        value={conversation?.mode ?? 'ask'}
        onChange={(event) => {
          const mode = event.target.value as (typeof modes)[number]
          focusComposer()
          void attempt(() => change({ mode }))
        }}
      >
        {modes.map((mode) => (
          <option key={mode} value={mode} disabled={mode === 'edit' && !mayChangeFiles}>
            {text.composer.modes[mode]}
          </option>
        ))}
      </select>
      {mayChangeFiles && (
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
      {isRulesOpen && <RulesDialog conversationId={conversationId} onClose={() => setRulesOpen(false)} />}
    </div>
  )
}
