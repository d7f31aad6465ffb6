import type { Entry, ModelItem } from './context.ts'

/**
 * What the model still sees of a long conversation. Pure decisions: what people see, and the ledger, never change by it (C6).
 *
 * - `trim` drops the oldest turns.
 * - `summarize` drops them too, and puts a summary in their place.
 * - `compact` leaves out what tools were asked and answered in older turns; when that is not enough, it trims.
 */
export type MemoryStrategy = 'trim' | 'summarize' | 'compact'

export interface MemorySituation {
  entries: readonly Entry[]
  /** The message that is being answered: its turn is never touched. */
  turn: string
  strategy: MemoryStrategy
  /** How many tokens a request may have. */
  budget: number
  /** Tokens of what goes along besides: instructions, tools, files, snippets. */
  besides: number
  /** Do it whether or not it is too much. */
  isWanted: boolean
}

export interface MemoryPlan {
  kept: Entry[]
  /** What a summary has to stand for, an earlier summary included; empty when there is to be none. */
  summarized: Entry[]
  /** Turns that the model does not see any more. */
  dropped: string[]
  tokensBefore: number
}

/** When it is too much, more is taken away than needed: otherwise the next message would be too much again. */
const AIM = 0.7
/** The part of the room for what was said that a summary may take. */
const SUMMARY = 0.3
const LONGEST_SUMMARY = 2000

export function summaryTokens({ budget, besides }: Pick<MemorySituation, 'budget' | 'besides'>): number {
  return Math.max(50, Math.min(Math.floor((budget - besides) * SUMMARY), LONGEST_SUMMARY))
}

/** Null when nothing is to be done. */
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
  // A summary is replaced by one that includes it, and what is only trimmed is not told of at all.
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

/** Turns that may go, the oldest first. */
function turnsOf(entries: readonly Entry[], current: string): string[] {
  const turns = new Set(entries.flatMap((entry) => entry.turn ?? []))
  turns.delete(current)
  return [...turns]
}

interface KnownItem {
  type?: string
  name?: string
}

/** Replaces the calls, outcomes and reasoning of older turns by one line. */
function withoutTools(entries: readonly Entry[], current: string): Entry[] {
  const kept: Entry[] = []
  const notes = new Map<string, { entry: Entry; names: string[] }>()
  for (const entry of entries) {
    const { type, name } = entry.item as KnownItem
    const isWork = type === 'reasoning' || type?.includes('_call') === true
    if (entry.turn === null || entry.turn === current || !isWork) {
      kept.push(entry)
      continue
    }
    let note = notes.get(entry.turn)
    if (!note) {
      note = { entry: { item: {}, turn: entry.turn, tokens: 0 }, names: [] }
      notes.set(entry.turn, note)
      kept.push(note.entry)
    }
    if (name !== undefined && type?.endsWith('_call')) note.names.push(name)
  }
  for (const { entry, names } of notes.values()) {
    const content = `[Tools were used here: ${names.join(', ') || 'none of ours'}. What they returned is left out.]`
    entry.item = { role: 'assistant', content }
    entry.tokens = Math.ceil(content.length / 4)
  }
  return kept
}

export function summaryItem(text: string): ModelItem {
  return { role: 'user', content: `<summary of="what was said before">\n${text}\n</summary>` }
}
