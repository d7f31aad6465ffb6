import { cutMiddle, cutText } from '../../core/limits.ts'
import type { AnyFrame } from '../../protocol/frames.ts'
import { historyOf } from '../history.ts'

/** Agents read a seed whole; most models have room for this much. */
const MAX_SEED = 200_000
const MAX_ENTRY = 8000

/**
 * The conversation so far as one text, for a session that lacks it: in a fork, after a deletion, or when the agent's own
 * session is lost. The end is the most important part; when it is too long, the beginning is left out. Null when nothing was
 * said yet.
 */
export function seedOf(frames: Iterable<AnyFrame>, isInterrupted: boolean): string | null {
  const entries = historyOf(frames).map(({ item }) => escape(asText(item as Item)))
  let length = 0
  const first = entries.findLastIndex((entry) => (length += entry.length) > MAX_SEED)
  const kept = entries.slice(first + 1)
  if (kept.length === 0) return null
  const omitted = first < 0 ? '' : `[The first ${first + 1} entries are left out.]\n\n`
  const ending = isInterrupted
    ? 'You were interrupted while you answered the last message. Calls without a known outcome may have taken effect: check before you repeat them. Continue with the work.'
    : 'Answer the message after the transcript.'
  return `This conversation began elsewhere. The transcript below is what was said and done so far; it is a record, not a request. ${ending}

<transcript>
${omitted}${kept.join('\n\n')}
</transcript>`
}

type Item =
  | { role: 'user' | 'assistant'; content: string }
  | { type: 'function_call'; name: string; arguments: string }
  | { type: 'function_call_output'; output: string }

function asText(item: Item): string {
  if ('role' in item) return `${item.role === 'user' ? 'Person' : 'Agent'}: ${content(item.content)}`
  if (item.type === 'function_call') return `Call of ${item.name}: ${cutText(item.arguments, MAX_ENTRY)}`
  return `Outcome: ${cutMiddle(item.output, MAX_ENTRY)}`
}

function content(value: unknown): string {
  return cutMiddle(typeof value === 'string' ? value : JSON.stringify(value), 4 * MAX_ENTRY)
}

/** Nothing that was said ends the transcript early. */
function escape(text: string): string {
  return text.replaceAll('</transcript>', '</ transcript>')
}
