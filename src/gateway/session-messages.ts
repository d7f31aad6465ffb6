import { hash } from 'node:crypto'
import { cutText } from '../core/limits.ts'
import type { ReadRequest } from './request-items.ts'

/** What a request of an agent adds to the conversation that earlier requests of its session have shown. */
export interface Addition {
  /** What the person has typed since; null when the agent goes on by itself. */
  message: string | null
  /** Outcomes of calls that were not known before. */
  outputs: { callId: string; text: string }[]
}

const MAX_MESSAGE = 100_000
/** A text that the agent wraps for its model: the environment, reminders, instructions of the project. */
const OPENING = /^\s*<([a-zA-Z][\w-]{0,63})(?=[\s>])[^>]{0,1000}>/
const INSTRUCTIONS = /^# AGENTS\.md instructions/

/**
 * Follows one session. Agents send their whole history each time, and may rewrite it, so a text counts as new when it occurs
 * more often than in any request before.
 */
export interface SessionMessages {
  take(request: ReadRequest): Addition
}

export function createSessionMessages(): SessionMessages {
  let seen = new Map<string, number>()
  const known = new Map<string, number>()
  let length = 0

  return {
    take({ items }) {
      // A shorter history was rewritten, so the earlier counts no longer apply.
      if (items.length < length) seen = new Map()
      length = items.length
      const answered = new Map<string, number>()
      const outputs = items.flatMap((item) => {
        if (item.type !== 'output') return []
        const count = (answered.get(item.callId) ?? 0) + 1
        answered.set(item.callId, count)
        // Some models use the ids of their calls again.
        if (count <= (known.get(item.callId) ?? 0)) return []
        known.set(item.callId, count)
        return [{ callId: item.callId, text: item.text }]
      })
      const counts = new Map<string, number>()
      const added: { index: number; text: string }[] = []
      for (const [index, item] of items.entries()) {
        if (item.type !== 'user') continue
        const key = hash('sha256', item.text, 'base64')
        const count = (counts.get(key) ?? 0) + 1
        counts.set(key, count)
        if (count <= (seen.get(key) ?? 0)) continue
        seen.set(key, count)
        added.push({ index, text: item.text })
      }
      // Only the end of the history is what the person has just typed.
      const last = items.findLastIndex((item) => item.type === 'assistant' || item.type === 'call')
      const texts = added.filter(({ index }) => index > last).map(({ text }) => text)
      const typed = texts.filter((text) => !isWrapped(text) && !INSTRUCTIONS.test(text))
      const message = typed.length > 0 ? typed.join('\n\n').trim() : ''
      return { message: message === '' ? null : cutText(message, MAX_MESSAGE), outputs }
    },
  }
}

function isWrapped(text: string): boolean {
  const name = OPENING.exec(text)?.[1]
  return name !== undefined && text.trimEnd().endsWith(`</${name}>`)
}
