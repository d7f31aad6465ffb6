import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { QuestionView } from '../../src/protocol/api/runs.ts'
import { visibleArguments } from '../../src/protocol/visible-text.ts'
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
      {question.data && (
        <pre className="question" tabIndex={0}>
          {visibleArguments(question.data.arguments)}
        </pre>
      )}
      {question.isError && <p className="failure">{explain(question.error)}</p>}
      {question.data?.confinement && (
        <Confinement confinement={question.data.confinement} grant={grant} onGrant={setGrant} />
      )}
      <label className="grant">
        <input type="checkbox" checked={always} onChange={(event) => setAlways(event.target.checked)} />
        {text.tools.always}
      </label>
      <input
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        placeholder={text.tools.reason}
        aria-label={text.tools.reason}
      />
      <Button look="main" icon="check" disabled={isSent || !question.data} onClick={() => void answer(true)}>
        {text.tools.allow}
      </Button>
      <Button look="danger" icon="close" disabled={isSent} onClick={() => void answer(false)}>
        {text.tools.deny}
      </Button>
    </div>
  )
}

interface Grant {
  network: boolean
  outside: boolean
}

/** Where the program would run, and what a person may grant it besides. */
function Confinement({
  confinement,
  grant,
  onGrant,
}: {
  confinement: NonNullable<QuestionView['confinement']>
  grant: Grant
  onGrant: (grant: Grant) => void
}) {
  const { sandbox, network, wants_network } = confinement
  return (
    <>
      <p className={sandbox === null ? 'confinement warning' : 'confinement'}>
        {text.tools.confinement(sandbox, network)}
        {wants_network && !network && ` ${text.tools.wantsNetwork}`}
      </p>
      {sandbox !== null && !network && (
        <label className="grant">
          <input
            type="checkbox"
            checked={grant.network}
            disabled={grant.outside}
            onChange={(event) => onGrant({ ...grant, network: event.target.checked })}
          />
          {text.tools.withNetwork}
        </label>
      )}
      {sandbox !== null && (
        <label className="grant">
          <input
            type="checkbox"
            checked={grant.outside}
            onChange={(event) => onGrant({ ...grant, outside: event.target.checked })}
          />
          {text.tools.outside}
        </label>
      )}
    </>
  )
}
