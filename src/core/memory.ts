import { type Entry, originOf } from './request-plan.ts'

/**
 * Decides what the model still sees of a long conversation. Pure; never changes the transcript or the ledger (C6).
 *
 * - `trim` drops the oldest turns.
 * - `summarize` also drops them, and replaces them with a summary.
 * - `compact` removes tool calls and outputs from older turns; if that is not enough, it trims.
 */
export type MemoryStrategy = 'trim' | 'summarize' | 'compact'

export interface MemorySituation {
  entries: readonly Entry[]
  /** The message being answered; its turn is never changed. */
  turn: string
  strategy: MemoryStrategy
  /** Maximum number of tokens in a request. */
  budget: number
  /** Tokens of everything else in the request: instructions, tools, files, snippets. */
  besides: number
  /** Apply the strategy even if the request is within budget. */
  isWanted: boolean
}

export interface MemoryPlan {
  kept: Entry[]
  /** Entries that the summary must cover, including an earlier summary; empty for no summary. */
  summarized: Entry[]
  /** Turns that the model no longer sees. */
  dropped: string[]
  tokensBefore: number
}

/** Over budget, entries are dropped down to this share of it; otherwise the next message would exceed it again. */
const AIM = 0.7
/** The share of the history's budget that a summary may use. */
const SUMMARY = 0.3
const LONGEST_SUMMARY = 2000

export function summaryTokens({ budget, besides }: Pick<MemorySituation, 'budget' | 'besides'>): number {
  return Math.max(50, Math.min(Math.floor((budget - besides) * SUMMARY), LONGEST_SUMMARY))
}

/** Null when the memory stays as it is. */
export function planMemory(situation: MemorySituation): MemoryPlan | null {
  const { entries, turn, strategy, budget, besides, isWanted } = situation
  const tokensBefore = tokensOf(entries)
  if (!isWanted && besides + tokensBefore <= budget) return null
  const shortened = strategy === 'compact' ? withoutTools(entries, turn) : [...entries]
  const reserve = strategy === 'summarize' ? summaryTokens(situation) : 0
  const aim = Math.max(0, Math.floor((budget - besides) * AIM) - reserve)
  const isEnough = (kept: readonly Entry[]) => tokensOf(kept) <= aim
  const turns = turnsOf(shortened, turn)
  const dropped: string[] = []
  let kept = shortened
  // A new summary replaces and includes the earlier one; trimmed turns leave no trace.
  const before = kept.filter((entry) => entry.turn === null)
  if (strategy === 'summarize') kept = kept.filter((entry) => entry.turn !== null)
  for (const oldest of turns) {
    if (isEnough(kept) && !(isWanted && strategy !== 'compact' && dropped.length < turns.length / 2)) break
    kept = kept.filter((entry) => entry.turn !== oldest)
    dropped.push(oldest)
  }
  if (dropped.length === 0) {
    const isShorter = shortened.length < entries.length
    return isShorter ? { kept: shortened, summarized: [], dropped, tokensBefore } : null
  }
  const gone = new Set(dropped)
  const summarized =
    strategy === 'summarize'
      ? [...before, ...entries.filter((entry) => entry.turn !== null && gone.has(entry.turn))]
      : []
  return { kept, summarized, dropped, tokensBefore }
}

export function tokensOf(entries: readonly Entry[]): number {
  return entries.reduce((sum, entry) => sum + entry.tokens, 0)
}

/** Turns that may be dropped, oldest first. */
function turnsOf(entries: readonly Entry[], current: string): string[] {
  const turns = new Set(entries.flatMap((entry) => entry.turn ?? []))
  turns.delete(current)
  return [...turns]
}

/** Replaces the calls, outcomes and reasoning of each older turn with one line. */
function withoutTools(entries: readonly Entry[], current: string): Entry[] {
  const kept: Entry[] = []
  const notes = new Map<string, { entry: Entry; names: string[] }>()
  for (const entry of entries) {
    const origin = originOf(entry)
    const isWork = ['reasoning', 'tool_call', 'tool_output'].includes(origin.type)
    if (entry.turn === null || entry.turn === current || !isWork) {
      kept.push(entry)
      continue
    }
    let note = notes.get(entry.turn)
    if (!note) {
      const noteOrigin = { type: 'message' as const, role: 'assistant' as const, message_id: entry.turn }
      note = { entry: { origin: noteOrigin, item: {}, turn: entry.turn, tokens: 0 }, names: [] }
      notes.set(entry.turn, note)
      kept.push(note.entry)
    }
    if (origin.type === 'tool_call') note.names.push(origin.name)
  }
  for (const { entry, names } of notes.values()) {
    const content = `[Tools used here: ${names.join(', ') || 'no local ones'}. Their output is left out.]`
    entry.item = { role: 'assistant', content }
    entry.tokens = Math.ceil(content.length / 4)
  }
  return kept
}

export function summaryEntry(text: string, tokens: number): Entry {
  const content = `<summary of="the earlier conversation">\n${text}\n</summary>`
  return { origin: { type: 'summary' }, item: { role: 'user', content }, turn: null, tokens }
}
