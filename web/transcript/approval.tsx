import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import type { AnswerApproval, QuestionView } from '../../src/protocol/api/runs.ts'
import { visibleFields } from '../../src/protocol/visible-text.ts'
import type { ToolItem } from '../../src/replay/transcript.ts'
import { focusComposer } from '../composer/focus.ts'
import { Button } from '../controls/button.tsx'
import { useToasts } from '../controls/toasts.tsx'
import { useShortcuts } from '../keyboard.ts'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { useKept } from './open-parts.tsx'

interface ApprovalProps {
  tool: ToolItem
  conversationId: string
  runId: string
}

/** Asks for approval of a tool call. Shows the full call, and enables Allow only once it is loaded. */
export function Approval({ tool, conversationId, runId }: ApprovalProps) {
  const { attempt } = useToasts()
  const callId = tool.toolCallId ?? ''
  const name = tool.name ?? tool.toolType
  const [reason, setReason] = useKept(`reason ${runId} ${tool.key}`, '')
  const [isSent, setSent] = useState(false)
  const [grant, setGrant] = useState({ network: false, outside: false })
  const [always, setAlways] = useState<Always>('once')
  const question = useQuery({
    queryKey: keys.question(conversationId, runId, callId),
    queryFn: () => server.question(conversationId, runId, callId),
    staleTime: Number.POSITIVE_INFINITY,
  })

  const { confinement } = question.data ?? {}
  // The call requests network access but would run without it.
  const isWithout =
    confinement?.wants_network === true && !confinement.network && !grant.network && !grant.outside

  async function answer(approved: boolean, option_id?: string): Promise<void> {
    setSent(true)
    focusComposer()
    await attempt(async () => {
      try {
        await server.answerApproval(conversationId, runId, {
          tool_call_id: callId,
          approved,
          ...(option_id === undefined ? {} : { option_id }),
          ...(reason.trim() === '' ? {} : { reason: reason.trim() }),
          ...(approved
            ? { question_sha256: question.data?.question_sha256, grant, always: alwaysOf(always) }
            : {}),
        })
      } catch (error) {
        setSent(false)
        throw error
      }
    })
  }

  useShortcuts({
    y: () => {
      if (!isSent && question.data) void answer(true)
    },
    n: () => {
      if (!isSent) void answer(false)
    },
  })

  return (
    <div className="approval" role="group" aria-label={text.tools.mayItRun(name)}>
      <p>{text.tools.mayItRun(name)}</p>
      {question.data && <Question written={question.data.arguments} />}
      {question.isError && <p className="failure">{explain(question.error)}</p>}
      {question.data?.confinement && (
        <Confinement confinement={question.data.confinement} grant={grant} onGrant={setGrant} />
      )}
      <select
        aria-label={text.tools.how}
        value={always}
        onChange={(event) => setAlways(event.target.value as Always)}
      >
        {choicesFor(name, question.data?.prefix ?? null).map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
      <input
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        placeholder={text.tools.reason}
        aria-label={text.tools.reason}
      />
      <Button look="main" icon="check" disabled={isSent || !question.data} onClick={() => void answer(true)}>
        {isWithout ? text.tools.allowWithoutNetwork : text.tools.allow}
      </Button>
      <Button look="danger" icon="close" disabled={isSent} onClick={() => void answer(false)}>
        {text.tools.deny}
      </Button>
      <AgentOptions
        options={question.data?.options ?? []}
        isDisabled={isSent}
        onChoose={({ id, kind }) => void answer(kind.startsWith('allow'), id)}
      />
    </div>
  )
}

type AgentOption = QuestionView['options'][number]

/** A hosted agent's own answers, if it offers more than yes and no. */
function AgentOptions({
  options,
  isDisabled,
  onChoose,
}: {
  options: readonly AgentOption[]
  isDisabled: boolean
  onChoose: (option: AgentOption) => void
}) {
  if (options.length <= 2) return null
  return (
    <fieldset className="agent-options">
      <legend>{text.tools.agentOptions}</legend>
      {options.map((option) => (
        <Button key={option.id} disabled={isDisabled} onClick={() => onChoose(option)}>
          {option.name}
        </Button>
      ))}
    </fieldset>
  )
}

/** How long an approval lasts: once, or a rule and where it applies. */
type Always = 'once' | `${'exact' | 'prefix' | 'tool'} ${'conversation' | 'workspace'}`

function alwaysOf(always: Always): AnswerApproval['always'] {
  if (always === 'once') return false
  const [match, scope] = always.split(' ') as ['exact', 'workspace']
  return { match, scope }
}

function choicesFor(name: string, prefix: string | null): [Always, string][] {
  const calls = text.tools.always
  return [
    ['once', calls.once],
    ['exact conversation', calls.here(calls.exact)],
    ['exact workspace', calls.everywhere(calls.exact)],
    ...(prefix === null
      ? []
      : ([
          ['prefix conversation', calls.here(calls.prefix(prefix))],
          ['prefix workspace', calls.everywhere(calls.prefix(prefix))],
        ] satisfies [Always, string][])),
    ['tool conversation', calls.here(calls.tool(name))],
    ['tool workspace', calls.everywhere(calls.tool(name))],
  ]
}

/** Renders each field separately, so that no value can pass for another field. */
function Question({ written }: { written: string }) {
  const fields = useMemo(() => visibleFields(written), [written])
  return (
    <dl className="question">
      {fields.map(({ name, text: value }, index) => (
        <div key={index}>
          {name !== '' && <dt>{name}</dt>}
          <dd>
            <pre tabIndex={0}>{value}</pre>
          </dd>
        </div>
      ))}
    </dl>
  )
}

function Choice({
  isOn,
  onChange,
  name,
  isDisabled = false,
}: {
  isOn: boolean
  onChange: (isOn: boolean) => void
  name: string
  isDisabled?: boolean
}) {
  return (
    <label className="grant">
      <input
        type="checkbox"
        checked={isOn}
        disabled={isDisabled}
        onChange={(event) => onChange(event.target.checked)}
      />
      {name}
    </label>
  )
}

interface Grant {
  network: boolean
  outside: boolean
}

/** Describes the sandbox for the current choices, and offers the grants. */
function Confinement({
  confinement,
  grant,
  onGrant,
}: {
  confinement: NonNullable<QuestionView['confinement']>
  grant: Grant
  onGrant: (grant: Grant) => void
}) {
  const { wants_network } = confinement
  const sandbox = grant.outside ? null : confinement.sandbox
  const network = confinement.network || grant.network
  return (
    <>
      <p className={sandbox === null ? 'confinement warning' : 'confinement'}>
        {text.tools.confinement(sandbox, network)}
        {wants_network && !network && sandbox !== null && ` ${text.tools.wantsNetwork}`}
      </p>
      {confinement.sandbox !== null && !confinement.network && (
        <Choice
          isOn={grant.network}
          isDisabled={grant.outside}
          onChange={(isOn) => onGrant({ ...grant, network: isOn })}
          name={text.tools.withNetwork}
        />
      )}
      {confinement.sandbox !== null && (
        <Choice
          isOn={grant.outside}
          onChange={(isOn) => onGrant({ ...grant, outside: isOn })}
          name={text.tools.outside}
        />
      )}
    </>
  )
}
