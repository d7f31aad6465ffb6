import {
  type BlameAuthor,
  type BlamedFile,
  type BlameStep,
  type CheckpointEvent,
  type EditEvent,
  labels,
  type WorkEvent,
  type WorkStore,
} from '../core/work-sessions.ts'
import type { BlameView } from '../protocol/api/work.ts'
import { linesOf } from '../protocol/lines.ts'

/** A change that wrote lines: an edit, or the adoption of a fork's files. */
export type BlameSource = EditEvent | CheckpointEvent

/** What happened in a workspace, with the sources that its authors number. */
export interface BlameHistory {
  steps: BlameStep[]
  sources: BlameSource[]
}

/** Checkpoints that are stored only once: a deletion restates some of them on the new line. */
export function distinctCheckpoints(events: readonly CheckpointEvent[]): CheckpointEvent[] {
  const seen = new Set<string>()
  return events.filter(({ checkpointId, label }) => {
    const isNew = !seen.has(checkpointId) && label !== labels.kept
    seen.add(checkpointId)
    return isNew
  })
}

export function historyOf(
  checkpoints: readonly CheckpointEvent[],
  edits: readonly EditEvent[],
): BlameHistory {
  const sources: BlameSource[] = []
  const steps: BlameStep[] = []
  for (const event of inOrder(checkpoints, edits)) {
    if ('checkpointId' in event) {
      steps.push({ checkpoint: event.checkpointId, author: authorOf(event) })
      continue
    }
    const { path, change, diff, previousCheckpoint } = event
    sources.push(event)
    steps.push({ edit: { path, change, diff, previousCheckpoint, author: sources.length - 1 } })
  }
  return { steps, sources }

  /** The author of what only the checkpoint shows. */
  function authorOf(event: CheckpointEvent): BlameAuthor {
    if (labels.isOfInterrupted(event.label)) return 'unknown'
    if (!labels.isOfAdoption(event.label)) return 'outside'
    sources.push(event)
    return sources.length - 1
  }
}

/** A checkpoint that was taken after a call comes after the edits that it has recorded. */
function inOrder(checkpoints: readonly CheckpointEvent[], edits: readonly EditEvent[]): BlameSource[] {
  const after = new Map<EditEvent, CheckpointEvent>()
  const waiting = new Map<string, CheckpointEvent>()
  const all = [...checkpoints, ...edits].sort(byTime)
  for (const event of all) {
    const key = `${event.segment} ${event.runId}`
    if ('checkpointId' in event) {
      if (labels.isOfCall(event.label)) waiting.set(key, event)
      else waiting.delete(key)
    } else {
      const made = waiting.get(key)
      // Both were stored together.
      if (made?.at === event.at) after.set(event, made)
    }
  }
  return all
    .map((event) => {
      const place = 'checkpointId' in event ? null : (after.get(event) ?? null)
      return { event, key: place ?? event, isBefore: place !== null }
    })
    .sort(
      (a, b) => byTime(a.key, b.key) || Number(b.isBefore) - Number(a.isBefore) || byTime(a.event, b.event),
    )
    .map(({ event }) => event)
}

function byTime(a: WorkEvent, b: WorkEvent): number {
  if (a.at !== b.at) return a.at < b.at ? -1 : 1
  return a.segment - b.segment || a.eventNumber - b.eventNumber
}

const nothing = {
  conversation_id: null,
  message_id: null,
  message: null,
  tool_call_id: null,
  tool: null,
  agent: null,
  event_number: null,
  at: null,
}

/** The blamed file as clients get it. */
export async function blameView(
  store: Pick<WorkStore, 'editSources'>,
  tenant: string,
  path: string,
  { text, authors }: BlamedFile & { text: string },
  sources: readonly BlameSource[],
): Promise<BlameView> {
  const used = [...new Set(authors)]
  const edits = used.flatMap((author) => {
    const source = typeof author === 'number' ? sources[author] : undefined
    return source && 'path' in source ? source : []
  })
  const found = await store.editSources(edits)
  const details = new Map(edits.map((edit, index) => [edit, found[index]]))
  const shown = used.map((author): BlameView['authors'][number] => {
    if (typeof author !== 'number') return { kind: author, ...nothing }
    const source = sources[author]
    if (!source) return { kind: 'unknown', ...nothing }
    const isOwn = source.tenant === tenant
    const place = isOwn
      ? { conversation_id: source.conversationId, event_number: source.eventNumber, at: source.at }
      : {}
    if (!('path' in source)) return { kind: 'adopted', ...nothing, ...place }
    const kind = source.toolCallId === null ? 'run' : 'call'
    const detail = details.get(source)
    if (!isOwn || !detail) return { kind, ...nothing, ...place }
    const { messageId: message_id, ...more } = detail
    return { kind, ...nothing, ...place, message_id, ...more, tool_call_id: source.toolCallId }
  })
  const lines: BlameView['lines'] = []
  for (const [index, author] of authors.entries()) {
    const last = lines.at(-1)
    const at = used.indexOf(author)
    if (last?.author === at) last.to = index + 1
    else lines.push({ from: index + 1, to: index + 1, author: at })
  }
  if (linesOf(text).length !== authors.length) throw new Error('a line has no author')
  return { path, text, lines, authors: shown }
}
