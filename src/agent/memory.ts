import {
  type MemoryPlan,
  type MemoryStrategy,
  planMemory,
  summaryEntry,
  summaryTokens,
  tokensOf,
} from '../core/memory.ts'
import { type Entry, originOf, textIn } from '../core/request-plan.ts'
import type { FrameDraft } from '../protocol/frames.ts'
import { type CountTokens, loadTokenCounter } from './tokens.ts'

export interface MemoryWish {
  strategy: MemoryStrategy
  budget: number
  /** A person requested it, even if the budget is not exceeded. */
  isWanted: boolean
}

export interface MemoryDependencies {
  /** Asks the model for a summary of this text with at most `words` words. */
  summarize(text: string, words: number): Promise<string>
  /** Stores the summary and returns its reference. */
  keep(text: string): Promise<string>
  /** The number of the message's event on the line. */
  eventOf(messageId: string): Promise<number | null>
}

export interface Fitted {
  entries: Entry[]
  frame: FrameDraft<'memory.checkpoint'>
}

/** Reduces the entries to the token budget, with the frame that reports it; null when nothing needs to be done (C6). */
export async function fitMemory(
  deps: MemoryDependencies,
  given: {
    entries: readonly Entry[]
    turn: string
    besides: (count: CountTokens) => number
    wish: MemoryWish
  },
): Promise<Fitted | null> {
  const { strategy, budget, isWanted } = given.wish
  // Far below the limit, an exact count is not needed.
  const estimate = tokensOf(given.entries) + given.besides((text) => Math.ceil(text.length / 3))
  if (!isWanted && estimate * SAFE < budget) return null
  const count = await loadTokenCounter()
  const entries = given.entries.map((entry) => ({ ...entry, tokens: count(textIn(entry.item)) }))
  const situation = { entries, turn: given.turn, strategy, budget, besides: given.besides(count), isWanted }
  const plan = planMemory(situation)
  if (!plan) return null
  const summary = plan.summarized.length > 0 ? await summaryOf(deps, plan, summaryTokens(situation)) : null
  const kept = summary ? [summaryEntry(summary.text, count(summary.text)), ...plan.kept] : plan.kept
  return { entries: kept, frame: await frameOf(deps, { plan, entries, kept, summary, wish: given.wish }) }
}

/** Estimates may be off by this factor. */
const SAFE = 1.5

interface Summary {
  text: string
  ref: string
}

const WORDS_A_TOKEN = 0.6

async function summaryOf(
  deps: MemoryDependencies,
  { summarized }: MemoryPlan,
  tokens: number,
): Promise<Summary> {
  const words = Math.max(20, Math.floor(tokens * WORDS_A_TOKEN))
  const said =
    (await deps.summarize(transcriptOf(summarized), words)).trim() ||
    'The model returned no summary of the conversation.'
  // Truncate a summary that far exceeds its limit.
  const text =
    said.split(/\s+/).length > words * 2 ? `${said.split(/\s+/).slice(0, words).join(' ')} …` : said
  return { text, ref: await deps.keep(text) }
}

const MOST_OF_OUTPUT = 500

/** Joins the entries into one text: some models reject calls without outcomes, and outcomes without calls. */
function transcriptOf(entries: readonly Entry[]): string {
  return entries
    .map((entry) => {
      const origin = originOf(entry)
      const text = textIn(entry.item)
      switch (origin.type) {
        case 'summary':
          return text
        case 'tool_output':
          return `tool: ${text.slice(0, MOST_OF_OUTPUT)}`
        case 'tool_call':
          return `agent called ${origin.name}: ${text.slice(0, MOST_OF_OUTPUT)}`
        case 'reasoning':
          return ''
        default:
          return `${origin.type === 'message' && origin.role === 'assistant' ? 'agent' : 'person'}: ${text}`
      }
    })
    .filter(Boolean)
    .join('\n')
}

async function frameOf(
  deps: MemoryDependencies,
  made: { plan: MemoryPlan; entries: Entry[]; kept: Entry[]; summary: Summary | null; wish: MemoryWish },
): Promise<FrameDraft<'memory.checkpoint'>> {
  const { plan, entries, kept, summary, wish } = made
  const first = kept.find((entry) => entry.turn !== null)?.turn ?? null
  const keptFrom = first === null ? null : await deps.eventOf(first)
  const droppedFrom = plan.dropped[0] === undefined ? null : await deps.eventOf(plan.dropped[0])
  const turns = (all: readonly Entry[]) => new Set(all.flatMap((entry) => entry.turn ?? [])).size
  return {
    kind: 'memory.checkpoint',
    checkpoint: {
      strategy: wish.strategy,
      trigger_reason: wish.isWanted ? 'requested' : `more than ${wish.budget} tokens`,
      tokens_before: plan.tokensBefore,
      tokens_after: tokensOf(kept),
      items_before: entries.length,
      items_after: kept.length,
      turns_before: turns(entries),
      turns_after: turns(kept),
      kept_from_seq: keptFrom ?? 1,
      dropped: droppedFrom !== null && keptFrom !== null ? [[droppedFrom, keptFrom - 1]] : [],
      ...(summary ? { summary_ref: summary.ref, summary_sha256: summary.ref } : {}),
    },
  }
}
