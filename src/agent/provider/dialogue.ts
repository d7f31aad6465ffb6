import type { ModelItem } from '../../core/request-plan.ts'
import { inputOf, isRunByUs, outputOf, type RawItem, roleOf, toolNameOf } from './item-types.ts'

/**
 * A history as the protocols without response items see it: texts and images of the two sides, tool calls and their
 * results. Every call has exactly one result, because servers reject a request otherwise.
 */
export type Said =
  | { type: 'text'; role: 'user' | 'assistant'; text: string }
  | { type: 'image'; mediaType: string; data: string }
  /** `extra` is what a Chat Completions server sent with the call and expects back. */
  | { type: 'call'; id: string; name: string; arguments: string; extra?: unknown }
  | { type: 'result'; id: string; text: string }
  /** An item that a server of one protocol sent and only that protocol can send back. */
  | { type: 'native'; protocol: string; value: unknown; item: RawItem }

export const NOT_COMPLETED = 'This call was not completed.'

export function dialogueOf(items: readonly ModelItem[]): Said[] {
  const said = items.flatMap(saidIn)
  const called = new Set(said.flatMap((one) => (one.type === 'call' ? one.id : [])))
  const answered = new Set<string>()
  const paired: Said[] = []
  /** Calls since the last text, which need their results before anything else is said. */
  let open: string[] = []
  function closeOpen(): void {
    for (const id of open) paired.push({ type: 'result', id, text: NOT_COMPLETED })
    for (const id of open) answered.add(id)
    open = []
  }
  for (const one of said) {
    if (one.type === 'result') {
      if (!called.has(one.id) || answered.has(one.id)) continue
      answered.add(one.id)
      open = open.filter((id) => id !== one.id)
    } else if (one.type === 'call') {
      open.push(one.id)
    } else if (one.type === 'text' && one.role === 'user') closeOpen()
    paired.push(one)
  }
  closeOpen()
  return paired
}

/** The item in these terms; empty for one that has no equivalent. */
export function saidIn(item: ModelItem): Said[] {
  const raw = item as RawItem & { native?: { protocol: string; value: unknown } }
  if (raw.native) {
    const { protocol, value } = raw.native
    return [{ type: 'native', protocol, value, item: raw }]
  }
  if (raw.type === undefined || raw.type === 'message') return messageIn(raw)
  const role = roleOf(raw)
  if (role === 'call' && isRunByUs(raw)) return [callIn(raw)]
  if (role === 'outcome') return [{ type: 'result', id: callIdOf(raw), text: resultText(raw) }]
  return []
}

function messageIn(raw: RawItem): Said[] {
  const role = raw.role === 'assistant' ? 'assistant' : 'user'
  const parts = typeof raw.content === 'string' ? [{ text: raw.content }] : raw.content
  if (!Array.isArray(parts)) return []
  return parts.flatMap((part: Record<string, unknown>): Said[] => {
    if (part.type === 'input_image') return imageIn(part.image_url)
    const text = part.text ?? part.refusal
    return typeof text === 'string' && text !== '' ? [{ type: 'text', role, text }] : []
  })
}

function imageIn(url: unknown): Said[] {
  const match = typeof url === 'string' ? /^data:([\w/+.-]+);base64,(.*)$/s.exec(url) : null
  return match ? [{ type: 'image', mediaType: match[1] ?? '', data: match[2] ?? '' }] : []
}

function callIn(raw: RawItem): Said {
  const written = inputOf(raw) ?? '{}'
  const args = isObject(written) ? written : JSON.stringify({ input: written })
  const extra = raw.extra_content === undefined ? {} : { extra: raw.extra_content }
  return { type: 'call', id: callIdOf(raw), name: toolNameOf(raw), arguments: args, ...extra }
}

function callIdOf(raw: RawItem): string {
  const named = raw.call_id ?? raw.approval_request_id ?? raw.id
  return typeof named === 'string' ? named : ''
}

function resultText(raw: RawItem): string {
  const output = outputOf(raw)
  return typeof output === 'string' ? output : JSON.stringify(output ?? '')
}

function isObject(written: string): boolean {
  try {
    const value: unknown = JSON.parse(written)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
