import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import type { QuestionView } from '../../src/protocol/api/runs.ts'
import { visibleFields } from '../../src/protocol/visible-text.ts'
import type { ToolItem } from '../../src/replay/transcript.ts'
import { focusComposer } from '../composer/focus.ts'
import { Button } from '../controls/button.tsx'
import { useNotices } from '../controls/notices.tsx'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { useKept } from './open-parts.tsx'

interface ApprovalProps {
  tool: ToolItem
  conversationId: string
  runId: string
}

/** Asks before a tool runs. Shows all of what would run, and can't be answered with yes before that. */
export function Approval({ tool, conversationId, runId }: ApprovalProps) {
  const { attempt } = useNotices()
  const callId = tool.toolCallId ?? ''
  const name = tool.name ?? tool.toolType
  const [reason, setReason] = useKept(`reason ${runId} ${tool.key}`, '')
  const [isSent, setSent] = useState(false)
  const [grant, setGrant] = useState({ network: false, outside: false })
  const [always, setAlways] = useState(false)
  const question = useQuery({
    queryKey: keys.question(conversationId, runId, callId),
    queryFn: () => server.question(conversationId, runId, callId),
    staleTime: Number.POSITIVE_INFINITY,
  })

  const { confinement } = question.data ?? {}
  // It asked for the network, and would run without it.
  const isWithout =
    confinement?.wants_network === true && !confinement.network && !grant.network && !grant.outside

  async function answer(approved: boolean): Promise<void> {
    setSent(true)
    focusComposer()
    await attempt(async () => {
      try {
        await server.answerApproval(conversationId, runId, {
          tool_call_id: callId,
          approved,
          ...(reason.trim() === '' ? {} : { reason: reason.trim() }),
          ...(approved ? { question_sha256: question.data?.question_sha256, grant, always } : {}),
        })
      } catch (error) {
        setSent(false)
        throw error
      }
    })
  }

  return (
    <div className="approval" role="group" aria-label={text.tools.mayItRun(name)}>
      <p>{text.tools.mayItRun(name)}</p>
      {question.data && <Question written={question.data.arguments} />}
      {question.isError && <p className="failure">{explain(question.error)}</p>}
      {question.data?.confinement && (
        <Confinement confinement={question.data.confinement} grant={grant} onGrant={setGrant} />
      )}
      <Choice isOn={always} onChange={setAlways} name={text.tools.always} />
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
    </div>
  )
}

/** Field by field, so that no value can look like another field. */
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

/** Where the program would run as things are chosen, and what a person may grant it besides. */
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
