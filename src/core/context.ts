import { timestamp } from './clock.ts'
import type { ChainStep, ContextPart, HeldParts, PartOrigin } from './responses.ts'

/**
 * What the model is told, and how much of it a request has to say again. Pure: from what is remembered to the request's
 * input, with the origin of each part of it.
 */

/** An item of a request's input, as the provider takes it. */
export type ModelItem = object

/** Something that was said or done, in the order in which the model is told of it. */
export interface Entry {
  item: ModelItem
  /** The message of the turn that it belongs to; null for what stands before all turns. */
  turn: string | null
  tokens: number
}

/** A file whose whole text goes to the model (C3). */
export interface ActiveFile {
  path: string
  /** Sent whole; for a file that is not active now, only that it has changed or is gone. */
  state: 'whole' | 'changed' | 'gone'
  text: string
  sha256: string | null
  bytes: number
  why: string
  tokens: number
}

export interface SkippedFile {
  path: string
  bytes: number
  reason: string
}

export interface FoundChunk {
  id: string
  path: string
  startLine: number
  endLine: number
  text: string
  score: number
  tokens: number
}

/** What goes with a question besides what was said. */
export interface Surroundings {
  files: ActiveFile[]
  skipped: SkippedFile[]
  chunks: FoundChunk[]
}

/** The provider's memory of what it was sent: requests can go on from it (C2). */
export interface Chain {
  /** The provider's id of the last response. */
  responseId: string
  /** When that was, in milliseconds. */
  at: number
  model: string
  provider: string | null
  /** How many entries it has seen. */
  entries: number
  /** Path → SHA-256 of what was sent of each file; null for one that was told to be deleted. */
  files: Record<string, string | null>
  chunks: string[]
}

export interface Situation {
  entries: readonly Entry[]
  /** Entries before these that were not loaded: a follow-up does not need them. */
  earlier: EarlierEntries
  /** The message that is being answered. */
  turn: string
  surroundings: Surroundings
  chain: Chain | null
  now: number
  model: string
  provider: string | null
  /** Whether the provider keeps responses. */
  isKept: boolean
  /** Why the chain can not be gone on from, when that is known already. */
  broken?: Extract<ChainStep, 'refused' | 'memory'>
}

export interface EarlierEntries {
  count: number
  tokens: number
}

export const noneEarlier: EarlierEntries = { count: 0, tokens: 0 }

export interface PlannedRequest {
  input: ModelItem[]
  /** What the provider has from earlier requests of the chain: the records of those have the parts. */
  held: HeldParts
  previousResponseId: string | null
  step: ChainStep
  parts: ContextPart[]
  /** What the provider will have seen when it has answered, but for its answer. */
  seen: Pick<Chain, 'entries' | 'files' | 'chunks'>
}

export const CHAIN_MS = 30 * 24 * 60 * 60 * 1000

/** When the provider forgets a response that ended then. */
export function chainExpiry(endedAt: string): string {
  return timestamp(Date.parse(endedAt) + CHAIN_MS)
}

/** The entries that a long request lists one by one; older ones are one part. */
const MOST_LISTED = 400

/** Whether a chain has ended, so that a new one has to be sent what the old one had. */
export function beginsAgain(situation: Situation): boolean {
  return ['expired', 'refused', 'changed'].includes(stepOf(situation))
}

/** Whether the request is made of more than the entries at hand. */
export function needsEarlier(situation: Situation): boolean {
  const { earlier, chain } = situation
  if (earlier.count === 0) return false
  return stepOf(situation) !== 'follow_up' || (chain?.entries ?? 0) < earlier.count
}

export function planRequest(situation: Situation): PlannedRequest {
  const { entries, earlier, turn, surroundings, chain } = situation
  const step = stepOf(situation)
  const before = step === 'follow_up' && chain ? chain : { entries: 0, files: {}, chunks: [] }
  const asked = entries.findLastIndex((entry) => entry.turn === turn && isQuestion(entry.item))
  const question = asked < 0 ? entries.length : asked
  /** How many of these entries the provider has. */
  const known = Math.max(0, before.entries - earlier.count)
  const around = aroundParts(surroundings, before)
  const input: ModelItem[] = []
  const parts: ContextPart[] = []
  const held: HeldParts = { parts: earlier.count, tokens: earlier.tokens }
  const unlisted = { count: 0, tokens: 0 }
  for (const [index, { item, turn: of, tokens }] of entries.entries()) {
    if (index === question) addAround()
    if (index < known) {
      held.parts++
      held.tokens += tokens
      continue
    }
    const told = plainItem(item)
    if (told) input.push(told)
    if (index < entries.length - MOST_LISTED) {
      unlisted.count++
      unlisted.tokens += tokens
    } else
      parts.push({ origin: originOf(item, of), tokens, sent: told !== null, why: whyOf(step, told !== null) })
  }
  if (unlisted.count > 0) {
    const origin = { type: 'history' as const, parts: unlisted.count }
    parts.unshift({ origin, tokens: unlisted.tokens, sent: true, why: whyOf(step, true) })
  }
  if (question === entries.length) addAround()

  function addAround(): void {
    // The question has been asked already: what goes with it has gone with it.
    const isOver = known > question
    for (const { item, part } of around) {
      const sent = part.sent && !isOver
      if (sent && item) input.push(item)
      parts.push(isOver && part.sent ? { ...part, sent: false, why: 'the provider has it' } : part)
    }
  }

  return {
    input,
    previousResponseId: step === 'follow_up' ? (chain?.responseId ?? null) : null,
    step,
    parts,
    held,
    // What went with a question that was asked before is no news.
    seen:
      known > question
        ? { entries: earlier.count + entries.length, files: before.files, chunks: before.chunks }
        : seenWith(earlier.count + entries.length, surroundings, before),
  }
}

/** So many snippets are remembered to have been sent; one that is forgotten may be sent again. */
const MOST_CHUNKS = 500

function seenWith(
  entries: number,
  { files, chunks }: Surroundings,
  before: PlannedRequest['seen'],
): PlannedRequest['seen'] {
  return {
    entries,
    files: { ...before.files, ...Object.fromEntries(files.map((file) => [file.path, file.sha256])) },
    chunks: [...new Set([...before.chunks, ...chunks.map((chunk) => chunk.id)])].slice(-MOST_CHUNKS),
  }
}

function whyOf(step: ChainStep, sent: boolean): string {
  if (!sent) return 'what the model thought is its own'
  return step === 'follow_up' ? 'new since the last response' : 'told from the beginning'
}

/** Types that the API takes without an id. All others need theirs: a response refers to it, or the schema demands it. */
const WITHOUT_ID = new Set([
  'message',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
  'shell_call',
  'shell_call_output',
  'apply_patch_call',
  'apply_patch_call_output',
  'tool_search_call',
  'tool_search_output',
])
const NEEDS_STATUS = new Set(['apply_patch_call', 'apply_patch_call_output'])

/**
 * An item in the form that any provider takes, also one that has not stored it: without ids that only its maker could look
 * up. Reasoning can't be sent at all; null then.
 */
function plainItem(item: ModelItem): ModelItem | null {
  const { id, status, ...others } = item as KnownItem & { id?: string; status?: string; content?: unknown }
  const isNameless = others.type === undefined || WITHOUT_ID.has(others.type)
  const rest = {
    ...(isNameless || id === undefined ? {} : { id }),
    ...((isNameless && !NEEDS_STATUS.has(others.type ?? '')) || status === undefined ? {} : { status }),
    ...others,
  }
  if (rest.type === 'reasoning') return null
  if (rest.type !== 'message' || rest.role !== 'assistant' || !Array.isArray(rest.content)) return rest
  const texts = (rest.content as { text?: string; refusal?: string }[]).map(
    (part) => part.text ?? part.refusal ?? '',
  )
  return { role: 'assistant', content: texts.join('\n') }
}

function stepOf({ chain, now, model, provider, isKept, entries, earlier, broken }: Situation): ChainStep {
  if (!isKept) return 'not_kept'
  if (broken) return broken
  if (!chain) return 'first'
  if (chain.model !== model || chain.provider !== provider) return 'changed'
  if (now - chain.at >= CHAIN_MS) return 'expired'
  // The provider has seen more than there is: the memory was shortened since.
  return chain.entries > earlier.count + entries.length ? 'memory' : 'follow_up'
}

interface AroundPart {
  item: ModelItem | null
  part: ContextPart
}

function aroundParts(
  { files, skipped, chunks }: Surroundings,
  before: Pick<Chain, 'files' | 'chunks'>,
): AroundPart[] {
  return [
    ...files.map((file) => filePart(file, before)),
    ...skipped.map(({ path, bytes, reason }) => ({
      item: null,
      part: {
        origin: { type: 'file' as const, path, sha256: null, bytes },
        tokens: 0,
        sent: false,
        why: reason,
      },
    })),
    ...chunks.map((chunk) => chunkPart(chunk, before)),
  ]
}

function filePart(file: ActiveFile, before: Pick<Chain, 'files'>): AroundPart {
  const { path, sha256, bytes, tokens } = file
  const origin = { type: 'file' as const, path, sha256, bytes }
  const isKnown = Object.hasOwn(before.files, path)
  if (isKnown && before.files[path] === sha256) {
    return { item: null, part: { origin, tokens, sent: false, why: 'unchanged since it was sent' } }
  }
  // Of a file that the model was never shown, it need not be told that it has gone.
  if (file.state === 'gone' && !isKnown && file.why !== 'deleted') {
    return { item: null, part: { origin, tokens, sent: false, why: 'it is not there' } }
  }
  const why = isKnown
    ? file.state === 'gone'
      ? 'deleted since it was sent'
      : 'changed since it was sent'
    : file.why
  return { item: fileItem(file), part: { origin, tokens, sent: true, why } }
}

export function fileItem({ path, state, text }: Pick<ActiveFile, 'path' | 'state' | 'text'>): ModelItem {
  const name = `path=${JSON.stringify(path)}`
  const contents = {
    whole: `<active_file ${name}>\n${text}\n</active_file>`,
    changed: `<changed_file ${name}/>`,
    gone: `<deleted_file ${name}/>`,
  }
  return { role: 'user', content: contents[state] }
}

function chunkPart(chunk: FoundChunk, before: Pick<Chain, 'chunks'>): AroundPart {
  const { id, path, startLine, endLine, score, tokens } = chunk
  const origin = {
    type: 'chunk' as const,
    chunk_id: id,
    path,
    start_line: startLine,
    end_line: endLine,
    score,
  }
  if (before.chunks.includes(id)) {
    return { item: null, part: { origin, tokens, sent: false, why: 'sent before on this chain' } }
  }
  return { item: chunkItem(chunk), part: { origin, tokens, sent: true, why: 'found for the question' } }
}

export function chunkItem({
  path,
  startLine,
  endLine,
  text,
}: Omit<FoundChunk, 'id' | 'score' | 'tokens'>): ModelItem {
  const lines = `${startLine}-${endLine}`
  return {
    role: 'user',
    content: `<snippet path=${JSON.stringify(path)} lines="${lines}">\n${text}\n</snippet>`,
  }
}

interface KnownItem {
  type?: string
  role?: string
  call_id?: string
  name?: string
}

const ATTACHMENT = /^<attachment name=("(?:[^"\\]|\\.)*")/

function originOf(item: ModelItem, turn: string | null): PartOrigin {
  const { type, role, call_id = '', name = '' } = item as KnownItem
  if (turn === null) return { type: 'summary' }
  const attachment = role === 'user' ? ATTACHMENT.exec(textIn(item))?.[1] : undefined
  if (attachment !== undefined) return { type: 'attachment', name: JSON.parse(attachment) as string }
  if (type?.endsWith('_call_output')) return { type: 'tool_output', tool_call_id: call_id }
  if (type?.endsWith('_call')) return { type: 'tool_call', tool_call_id: call_id, name }
  if (type === 'reasoning') return { type: 'reasoning' }
  return { type: 'message', role: role === 'assistant' ? 'assistant' : 'user', message_id: turn }
}

function isQuestion(item: ModelItem): boolean {
  return (item as KnownItem).role === 'user'
}

/** What a model reads of an item. */
export function textIn(item: ModelItem): string {
  const { content, output, arguments: args } = item as Record<string, unknown>
  const said = content ?? output ?? args
  return typeof said === 'string' ? said : JSON.stringify(said ?? item)
}
