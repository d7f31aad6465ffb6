import { timestamp } from './clock.ts'
import type { ChainStep, ContextPart, HeldParts, PartOrigin } from './responses.ts'

/** Plans a model request: its input, the origin of each part, and which parts the provider already holds. Pure. */

/** An item of a request's input, in the provider's format. */
export type ModelItem = object

/** A message, call or output, in the order in which the model sees it. */
export interface Entry {
  /** What it is, set by the code that makes the item. States of earlier versions have none: see `originOf`. */
  origin?: PartOrigin
  item: ModelItem
  /** The message whose turn it belongs to; null for entries before all turns. */
  turn: string | null
  tokens: number
}

/** A file whose whole text goes to the model (C3). */
export interface ActiveFile {
  path: string
  /**
   * `whole` sends the text, `instructions` as the project's instructions for agents. `changed` and `gone` only mark a file
   * that is no longer active.
   */
  state: 'whole' | 'instructions' | 'changed' | 'gone'
  text: string
  sha256: string | null
  bytes: number
  why: string
  tokens: number
}

/** True if the text of the file is sent. */
export function isSent({ state }: Pick<ActiveFile, 'state'>): boolean {
  return state === 'whole' || state === 'instructions'
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

/** Files and snippets that go with a question. */
export interface Surroundings {
  files: ActiveFile[]
  skipped: SkippedFile[]
  chunks: FoundChunk[]
}

/** The provider's memory of earlier requests, which a follow-up continues (C2); or, without one, what the entries hold. */
export interface Chain {
  /** The provider's id of the last response; null if the provider stores none and the entries hold all files and snippets. */
  responseId: string | null
  /** True if the provider doesn't have it: the next request starts again, with everything that the chain held. */
  isLost?: boolean
  /** When that response ended, in milliseconds. */
  at: number
  model: string
  provider: string | null
  /** Number of entries the provider has seen. */
  entries: number
  /** Path → SHA-256 of the content that was sent; null for a file that was reported as deleted. */
  files: Record<string, string | null>
  /**
   * Files that the model knows in part: a tool has read or written them, or they were only reported as changed. For a path in
   * both, this is the newer state.
   */
  touched?: Record<string, string | null>
  chunks: string[]
}

export interface Situation {
  entries: readonly Entry[]
  /** Earlier entries that were not loaded; a follow-up doesn't need them. */
  earlier: EarlierEntries
  /** The message being answered. */
  turn: string
  surroundings: Surroundings
  chain: Chain | null
  now: number
  model: string
  provider: string | null
  /** True if the provider stores responses. */
  isKept: boolean
  /** The item as the provider's protocol sends it; null if it can't. */
  sendable(item: ModelItem): ModelItem | null
  /** Why the chain can't be continued, if already known. */
  broken?: Extract<ChainStep, 'refused' | 'memory'>
}

export interface EarlierEntries {
  count: number
  tokens: number
}

export const noneEarlier: EarlierEntries = { count: 0, tokens: 0 }

export interface PlannedRequest {
  input: ModelItem[]
  /** Parts the provider holds from earlier requests of the chain; those requests' records list them. */
  held: HeldParts
  previousResponseId: string | null
  step: ChainStep
  parts: ContextPart[]
  /** Everything the provider will have seen once it has answered, except its answer. */
  seen: Seen & Pick<Chain, 'entries'>
}

/** Files and snippets that the model has. */
type Seen = Pick<Chain, 'files' | 'chunks' | 'touched'>

export const CHAIN_MS = 30 * 24 * 60 * 60 * 1000

/** When the provider discards a response that ended at `endedAt`. */
export function chainExpiry(endedAt: string): string {
  return timestamp(Date.parse(endedAt) + CHAIN_MS)
}

/** Number of entries that a long request lists individually; older ones form one part. */
const MOST_LISTED = 400

/** True if the chain has ended, so a new one must resend the files and snippets that the old one had. */
export function beginsAgain(situation: Situation): boolean {
  const { chain, isKept } = situation
  // The entries hold them already.
  if (!chain || chain.responseId === null) return false
  return !isKept || ['expired', 'refused', 'changed'].includes(stepOf(situation))
}

/** True if the request includes entries that are not loaded. */
export function needsEarlier(situation: Situation): boolean {
  const { earlier, chain } = situation
  if (earlier.count === 0) return false
  return stepOf(situation) !== 'follow_up' || (chain?.entries ?? 0) < earlier.count
}

export function planRequest(situation: Situation): PlannedRequest {
  const { entries, earlier, turn, surroundings, chain } = situation
  const step = stepOf(situation)
  const before = beforeOf(step, chain, entries)
  const asked = entries.findLastIndex((entry) => entry.turn === turn && isQuestion(originOf(entry)))
  const question = asked < 0 ? entries.length : asked
  /** Number of these entries that the provider already has. */
  const known = Math.max(0, before.entries - earlier.count)
  const around = aroundParts(surroundings, before)
  const input: ModelItem[] = []
  const parts: ContextPart[] = []
  const held: HeldParts = { parts: earlier.count, tokens: earlier.tokens }
  const unlisted = { count: 0, tokens: 0 }
  for (const [index, entry] of entries.entries()) {
    const { item, tokens } = entry
    if (index === question) addAround()
    if (index < known) {
      held.parts++
      held.tokens += tokens
      continue
    }
    const told = situation.sendable(item)
    if (told) input.push(told)
    if (index < entries.length - MOST_LISTED) {
      unlisted.count++
      unlisted.tokens += tokens
    } else
      parts.push({ origin: originOf(entry), tokens, sent: told !== null, why: whyOf(step, told !== null) })
  }
  if (unlisted.count > 0) {
    const origin = { type: 'history' as const, parts: unlisted.count }
    parts.unshift({ origin, tokens: unlisted.tokens, sent: true, why: whyOf(step, true) })
  }
  if (question === entries.length) addAround()

  function addAround(): void {
    // The question was already sent, and its files and snippets with it.
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
    // A question that was already sent adds no files or snippets.
    seen:
      known > question
        ? { ...before, entries: earlier.count + entries.length }
        : seenWith(earlier.count + entries.length, surroundings, before),
  }
}

/** Number of sent snippets to remember; a forgotten one may be sent again. */
const MOST_CHUNKS = 500

function seenWith(
  entries: number,
  { files, chunks }: Surroundings,
  before: PlannedRequest['seen'],
): PlannedRequest['seen'] {
  const [known, touched] = [{ ...before.files }, { ...before.touched }]
  for (const { path, state, sha256 } of files) {
    // Of a changed file that was only reported, the model has the old text.
    if (state === 'changed') touched[path] = sha256
    else {
      delete touched[path]
      known[path] = sha256
    }
  }
  return {
    entries,
    files: known,
    chunks: [...new Set([...before.chunks, ...chunks.map((chunk) => chunk.id)])].slice(-MOST_CHUNKS),
    touched,
  }
}

function whyOf(step: ChainStep, sent: boolean): string {
  if (!sent) return 'this protocol does not send it back'
  return step === 'follow_up' ? 'new since the last response' : 'sent with the full history'
}

/** What the model has seen when a request begins: the chain's contents, or those of the entries that the request sends. */
function beforeOf(step: ChainStep, chain: Chain | null, sent: readonly Entry[]): PlannedRequest['seen'] {
  const touched = chain?.touched ?? {}
  if (step === 'follow_up' && chain) {
    const { entries, files, chunks } = chain
    return { entries, files, chunks, touched }
  }
  if (chain?.responseId === null) return { entries: 0, files: chain.files, chunks: chain.chunks, touched }
  const held = seenIn(sent)
  return { ...held, entries: 0, touched: { ...touched, ...held.touched } }
}

/** The files and snippets of a message as entries, for a provider that stores nothing: later requests send them in the same place. */
export function aroundEntries(
  surroundings: Surroundings,
  chain: Chain | null,
  earlier: readonly Entry[],
  turn: string,
): { entries: Entry[]; seen: Seen } {
  const before = beforeOf('not_kept', chain, earlier)
  const entries = aroundParts(surroundings, before).flatMap(({ item, part }) =>
    item && part.sent ? { origin: part.origin, item, turn, tokens: part.tokens } : [],
  )
  const { files, chunks, touched = {} } = seenWith(0, surroundings, before)
  return { entries, seen: { files, chunks, touched } }
}

/** The files and snippets that these entries hold. */
export function seenIn(entries: readonly Entry[]): Required<Seen> {
  const files: Chain['files'] = {}
  const touched: Chain['files'] = {}
  const chunks: string[] = []
  for (const { origin, item } of entries) {
    if (origin?.type === 'chunk') chunks.push(origin.chunk_id)
    if (origin?.type !== 'file') continue
    if (isChangeReport(item)) touched[origin.path] = origin.sha256
    else {
      delete touched[origin.path]
      files[origin.path] = origin.sha256
    }
  }
  return { files, touched, chunks: chunks.slice(-MOST_CHUNKS) }
}

function stepOf({ chain, now, model, provider, isKept, entries, earlier, broken }: Situation): ChainStep {
  if (broken === 'refused') return broken
  if (!isKept) return 'not_kept'
  if (broken) return broken
  if (!chain) return 'first'
  if (chain.isLost || chain.responseId === null) return 'changed'
  if (chain.model !== model || chain.provider !== provider) return 'changed'
  if (now - chain.at >= CHAIN_MS) return 'expired'
  // The provider has seen more entries than there are: the memory was shortened since.
  return chain.entries > earlier.count + entries.length ? 'memory' : 'follow_up'
}

interface AroundPart {
  item: ModelItem | null
  part: ContextPart
}

function aroundParts({ files, skipped, chunks }: Surroundings, before: Seen): AroundPart[] {
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

function filePart(file: ActiveFile, before: Seen): AroundPart {
  const { path, sha256, bytes, tokens } = file
  const origin = { type: 'file' as const, path, sha256, bytes }
  const isSentBefore = Object.hasOwn(before.files, path)
  const isTouched = Object.hasOwn(before.touched ?? {}, path)
  const isKnown = isSentBefore || isTouched
  if (isSentBefore && !isTouched && before.files[path] === sha256) {
    return { item: null, part: { origin, tokens, sent: false, why: 'unchanged since it was sent' } }
  }
  // The model need not learn that a file was deleted if it never saw the file.
  if (file.state === 'gone' && !isKnown && file.why !== 'deleted') {
    return { item: null, part: { origin, tokens, sent: false, why: 'file not found' } }
  }
  const isChange = isSentBefore || file.state === 'changed'
  const why =
    file.state === 'gone' && isKnown
      ? 'deleted since it was sent'
      : isChange
        ? 'changed since it was sent'
        : file.why
  return { item: fileItem(file), part: { origin, tokens, sent: true, why } }
}

const CHANGE_REPORT = '<changed_file'

function isChangeReport(item: ModelItem): boolean {
  return textIn(item).startsWith(CHANGE_REPORT)
}

export function fileItem({ path, state, text }: Pick<ActiveFile, 'path' | 'state' | 'text'>): ModelItem {
  const name = `path=${JSON.stringify(path)}`
  const contents = {
    whole: `<active_file ${name}>\n${text}\n</active_file>`,
    instructions: `<project_instructions ${name}>\n${text}\n</project_instructions>`,
    changed: `${CHANGE_REPORT} ${name}/>`,
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
  return { item: chunkItem(chunk), part: { origin, tokens, sent: true, why: 'matches the question' } }
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

/** The origin of an item that the provider returned, by its type. */
export function itemOrigin(item: ModelItem, turn: string | null): PartOrigin {
  const { type, role, call_id = '', name = '' } = item as KnownItem
  if (type?.endsWith('_call_output')) return { type: 'tool_output', tool_call_id: call_id }
  if (type?.endsWith('_call')) return { type: 'tool_call', tool_call_id: call_id, name }
  if (type === 'reasoning') return { type: 'reasoning' }
  return { type: 'message', role: role === 'user' ? 'user' : 'assistant', message_id: turn }
}

/** An entry that an earlier version stored without its origin is known only by the type of its item. */
export function originOf({ origin, item, turn }: Entry): PartOrigin {
  return origin ?? (turn === null ? { type: 'summary' } : itemOrigin(item, turn))
}

function isQuestion(origin: PartOrigin): boolean {
  return origin.type === 'message' && origin.role === 'user'
}

/** The text of an item as the model reads it, without its images. */
export function textIn(item: ModelItem): string {
  const { content, output, arguments: args } = item as Record<string, unknown>
  const said = content ?? output ?? args
  if (typeof said === 'string') return said
  return JSON.stringify(Array.isArray(said) ? said.filter((part) => !isImage(part)) : (said ?? item))
}

export function imagesIn(item: ModelItem): number {
  const { content } = item as { content?: unknown }
  return Array.isArray(content) ? content.filter(isImage).length : 0
}

function isImage(part: unknown): boolean {
  return typeof part === 'object' && part !== null && 'type' in part && part.type === 'input_image'
}
