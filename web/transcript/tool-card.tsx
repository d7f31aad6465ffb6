import { useQuery } from '@tanstack/react-query'
import { memo, useEffect, useRef } from 'react'
import { shortened } from '../../src/protocol/title.ts'
import type { FileEdit, ToolItem } from '../../src/replay/transcript.ts'
import { Button } from '../controls/button.tsx'
import { Foldable } from '../controls/foldable.tsx'
import { ShowAll } from '../controls/show-all.tsx'
import { durationOf } from '../format.ts'
import { useAskRestore } from '../restoring/ask-restore.tsx'
import { useMay } from '../scopes.ts'
import { explain, keys, server } from '../server.ts'
import { text } from '../text.ts'
import { Approval } from './approval.tsx'
import { Counts, DiffView } from './diff-view.tsx'
import { Highlighted } from './highlight.tsx'
import { useKept, useOpen } from './open-parts.tsx'
import { useReadOnly } from './read-only.ts'

interface ToolProps {
  tool: ToolItem
  conversationId: string
  runId: string
  /** True when the run has ended. */
  isOver: boolean
}

type State = 'writing' | 'asking' | 'running' | 'done' | 'failed' | 'denied' | 'not-run' | 'broken-off'

export const ToolCard = memo(function ToolCard({ tool, conversationId, runId, isOver }: ToolProps) {
  const state = stateOf(tool, isOver)
  const isReadOnly = useReadOnly()
  const mayAnswer = useMay('workspace:write')
  const isAsked = state === 'asking' && !isReadOnly && mayAnswer
  const isOpenByItself =
    state === 'asking' ||
    state === 'running' ||
    state === 'failed' ||
    isShort(tool.edits) ||
    (isCommand(tool) && outputText(tool.output) !== '')
  const [isOpen, toggle] = useOpen(`${runId} ${tool.key}`, isOpenByItself)
  const heading = (
    <>
      <span className="tool-name" title={tool.name ?? tool.toolType}>
        {verbOf(tool, state)}
      </span>
      <span className="tool-summary">{summaryOf(tool)}</span>
      {tool.edits.map((edit, index) => (
        <Counts key={index} {...edit} />
      ))}
      <span className="tool-time">{timeTaken(tool)}</span>
      <span className={`tool-state ${state}`}>{text.tools.states[state]}</span>
    </>
  )
  return (
    <Foldable isOpen={isOpen} onToggle={toggle} heading={heading} className={`tool ${state}`}>
      {isAsked ? (
        <Approval tool={tool} conversationId={conversationId} runId={runId} />
      ) : (
        // Collapsed when the heading or a diff shows the same content.
        <Arguments tool={tool} isOpen={tool.edits.length === 0 && state !== 'failed' && !isCommand(tool)} />
      )}
      {tool.approval && tool.approval.status !== 'requested' && (
        <p className="approval-answer">
          {text.tools.answered(tool.approval)}
          {tool.approval.grant && text.tools.granted(tool.approval.grant)}
        </p>
      )}
      {tool.edits.map((edit, index) => (
        <Edit key={index} edit={edit} />
      ))}
      <Output
        tool={tool}
        conversationId={conversationId}
        isLive={state === 'running'}
        isFolded={tool.edits.length > 0 && state === 'done' && !isCommand(tool)}
      />
      <Images tool={tool} />
    </Foldable>
  )
})

/** Longer diffs stay collapsed, because they fill more than a screen. */
const SHORT_LINES = 60

function isShort(edits: readonly FileEdit[]): boolean {
  const lines = edits.reduce((sum, { additions, deletions }) => sum + additions + deletions, 0)
  return edits.length > 0 && lines <= SHORT_LINES
}

function stateOf(tool: ToolItem, isOver: boolean): State {
  if (tool.approval?.status === 'denied') return 'denied'
  // The approval was never answered.
  if (tool.phase === 'failed') return tool.approval?.status === 'requested' ? 'not-run' : 'failed'
  if (tool.phase === 'output' || tool.endedAt !== null) return 'done'
  if (isOver || tool.status === 'incomplete') return 'broken-off'
  if (tool.approval?.status === 'requested') return 'asking'
  return tool.phase === 'arguments' && tool.argumentsJson === undefined ? 'writing' : 'running'
}

/** Shorter calls show no time: only what a person waits for is worth reading. */
const SHOWN_MS = 1000

function timeTaken({ startedAt, endedAt, waitedMs }: ToolItem): string {
  if (endedAt === null) return ''
  const ms = Date.parse(endedAt) - Date.parse(startedAt) - waitedMs
  return ms < SHOWN_MS ? '' : durationOf(startedAt, endedAt, waitedMs)
}

/** What the call did, from its effects: `Edited`, `Ran`, or the tool's name as words. */
function verbOf(tool: ToolItem, state: State): string {
  const [edit, ...others] = tool.edits
  if (state === 'done' && isCommand(tool)) return text.tools.ran
  if (state === 'done' && edit && others.every(({ change }) => change === edit.change)) {
    return text.tools.changed[edit.change]
  }
  const { kind } = (tool.details ?? {}) as { kind?: unknown }
  const named =
    typeof kind === 'string' && kind !== 'other' && tool.details?.title ? kind : (tool.name ?? tool.toolType)
  const words = named.replaceAll(/_+/g, ' ').trim()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** The most informative argument of a call. */
function summaryOf(tool: ToolItem): string {
  // A hosted agent gives its calls a title.
  const { title: own } = (tool.details ?? {}) as { title?: unknown }
  if (typeof own === 'string' && own !== '') return shortened(own, 120)
  const given = tool.argumentsJson
  if (typeof given === 'object' && given !== null) {
    const { command, path, query, pattern, title } = given as Record<string, unknown>
    const steps = planSteps(given)
    if (steps !== null) return shortened(steps, 120)
    const telling = [command, path, query, pattern, title].find((value) => typeof value === 'string')
    if (typeof telling === 'string') return shortened(telling, 120)
  }
  return shortened(tool.argumentsText, 120)
}

/** The steps of a hosted agent's plan. */
function planSteps({ entries }: { entries?: unknown }): string | null {
  if (!Array.isArray(entries)) return null
  return entries.map((entry: { content?: unknown } | null) => String(entry?.content ?? '')).join(' · ')
}

function Arguments({ tool, isOpen }: { tool: ToolItem; isOpen: boolean }) {
  const { argumentsText, argumentsJson, code } = tool
  const isPretty = typeof argumentsJson === 'object' && argumentsJson !== null
  const shown = isPretty ? JSON.stringify(argumentsJson, null, 2) : argumentsText
  return (
    <>
      {shown !== '' && shown !== '{}' && (
        <details className="tool-section" open={isOpen}>
          <summary>{text.tools.arguments}</summary>
          <pre tabIndex={0}>
            <Highlighted code={shown} language={isPretty ? 'json' : ''} />
          </pre>
        </details>
      )}
      {code !== null && (
        <Section name={text.tools.code}>
          <pre tabIndex={0}>
            <Highlighted code={code} language="python" />
          </pre>
        </Section>
      )}
    </>
  )
}

function Section({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div className="tool-section">
      <h4>{name}</h4>
      {children}
    </div>
  )
}

const SHOWN_CHARACTERS = 6000

function Output({
  tool,
  conversationId,
  isLive,
  isFolded,
}: {
  tool: ToolItem
  conversationId: string
  isLive: boolean
  /** The diff says more than the output. */
  isFolded: boolean
}) {
  const [isWhole, setWhole] = useKept(`output ${tool.toolCallId} ${tool.key}`, false)
  const end = useRef<HTMLPreElement>(null)
  // The frame truncates long outputs.
  const whole = useQuery({
    queryKey: keys.output(conversationId, tool.toolCallId),
    queryFn: () => server.output(conversationId, tool.toolCallId ?? ''),
    enabled: isWhole && tool.isOutputCut && tool.toolCallId !== null,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const output = whole.data?.output ?? outputText(tool.output)
  useEffect(() => {
    if (isLive && end.current) end.current.scrollTop = end.current.scrollHeight
  }, [isLive, output])
  if (output === '') return null
  const isCut = !isWhole && !isLive && output.length > SHOWN_CHARACTERS
  const shown = (
    <>
      <pre ref={end} className="output" tabIndex={0}>
        {isCut ? foldedMiddle(output) : output}
      </pre>
      {whole.isError && <p className="failure">{explain(whole.error)}</p>}
      {(isCut || (tool.isOutputCut && !isWhole)) && <ShowAll onPress={() => setWhole(true)} />}
    </>
  )
  if (!isFolded) return <Section name={isLive ? text.tools.outputSoFar : text.tools.output}>{shown}</Section>
  return (
    <details className="tool-section">
      <summary>{text.tools.output}</summary>
      {shown}
    </details>
  )
}

/** The beginning and the end: the end of an output often has its result. */
function foldedMiddle(output: string): string {
  const half = SHOWN_CHARACTERS / 2
  const left = output.slice(half, output.length - half).split('\n').length
  return `${output.slice(0, half)}\n${text.tools.leftOut(left)}\n${output.slice(-half)}`
}

function isCommand({ argumentsJson }: ToolItem): boolean {
  return typeof (argumentsJson as { command?: unknown } | null | undefined)?.command === 'string'
}

function outputText(output: unknown): string {
  if (output === undefined || output === null) return ''
  return typeof output === 'string' ? output : JSON.stringify(output, null, 2)
}

export function Edit({ edit }: { edit: FileEdit }) {
  return (
    <div className="edit">
      <p className="edit-name">
        <span className={`change ${edit.change}`}>{text.changes.words[edit.change]}</span>
        <code>{edit.path}</code>
        <Counts {...edit} />
      </p>
      {edit.previousCheckpoint !== null && <Overwrote checkpointId={edit.previousCheckpoint} />}
      {edit.diff === null ? (
        <p className="quiet">{text.diff.none}</p>
      ) : edit.diff === '' ? (
        <p className="quiet">{text.diff.same}</p>
      ) : (
        <DiffView diff={edit.diff} label={edit.path} />
      )}
    </div>
  )
}

/** Warns that the agent overwrote changes that a person or a command had made during the run. */
function Overwrote({ checkpointId }: { checkpointId: string }) {
  const askRestore = useAskRestore()
  const isReadOnly = useReadOnly()
  return (
    <p className="quiet">
      {text.changes.overwrote}{' '}
      {!isReadOnly && (
        <Button look="quiet" onClick={() => askRestore(checkpointId)}>
          {text.changes.overwroteAction}
        </Button>
      )}
    </p>
  )
}

const imageTypes: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
}

function Images({ tool }: { tool: ToolItem }) {
  if (tool.toolType !== 'image_generation') return null
  const format = (tool.details as { format?: string } | null)?.format
  const type = imageTypes[format ?? 'png'] ?? 'image/png'
  return Object.entries(tool.chunks).map(([name, chunk]) =>
    chunk.encoding === 'base64' && chunk.done ? (
      <img key={name} className="made" alt={text.tools.image} src={`data:${type};base64,${chunk.data}`} />
    ) : null,
  )
}
