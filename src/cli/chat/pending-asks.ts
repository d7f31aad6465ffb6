import type { QuestionView } from '../../protocol/api/runs.ts'
import { type GivenAnswer, readAnswer } from '../ask.ts'
import type { PendingAsk } from '../conversation-session.ts'
import { dim, printable } from '../output.ts'
import type { Key } from './line-editor.ts'

/** A pending approval with its full call. */
export type WholeAsk = PendingAsk & { question: QuestionView }

/** Keys typed right before or after a question appears were meant for the message. */
const QUIET_MS = 1000
const GUARD_MS = 500

/** `text` belongs to a message: the question has to give up the keys. */
export type AskKey =
  | { do: 'answer'; answer: GivenAnswer }
  | { do: 'reason' | 'help' | 'scope' }
  | { do: 'text'; typed: string }
  | { do: 'message' | 'interrupt' | 'none' }

/**
 * A key answers only if no other key follows it for this long: a person who types a message presses the next key sooner.
 */
export const SETTLE_MS = 400

/**
 * Decides when keys answer an approval. A question has the keys only after the person has stopped typing, and half a second
 * after it was shown. Every other key belongs to the message.
 */
export class AskFocus {
  private readonly now: () => number
  private typedAt = Number.NEGATIVE_INFINITY
  private since: number | null = null
  private isConversationOnly = false

  constructor(now: () => number = () => performance.now()) {
    this.now = now
  }

  get isHeld(): boolean {
    return this.since !== null
  }

  noteTyping(): void {
    this.typedAt = this.now()
  }

  /** Gives the keys to the question, if the person isn't typing. */
  offer(text: string): void {
    if (this.since === null && text === '' && this.now() - this.typedAt >= QUIET_MS) this.take()
  }

  take(): void {
    this.since = this.now()
    this.isConversationOnly = false
  }

  leave(): void {
    this.since = null
  }

  press(typed: string | undefined, key: Key, question: QuestionView): AskKey {
    if (key.ctrl) return { do: key.name === 'c' ? 'interrupt' : 'none' }
    if (key.name === 'escape') return { do: 'message' }
    // Terminals send Esc and a letter right after it as one key.
    if (key.meta) return textOf(key.shift ? key.name?.toUpperCase() : key.name)
    if (this.since === null || this.now() - this.since < GUARD_MS) return textOf(typed)
    if (typed === '?') return { do: 'help' }
    if (typed === 'r') return { do: 'reason' }
    if (typed === 'c') return { do: 'scope' }
    const answer = this.answerOf(typed ?? '', question)
    return answer === null ? textOf(typed) : { do: 'answer', answer }
  }

  /** Switches between rules for the project and for the conversation. */
  changeScope(): void {
    this.isConversationOnly = !this.isConversationOnly
  }

  private answerOf(typed: string, question: QuestionView): GivenAnswer | null {
    const always: Record<string, string> = { W: 'aw', O: 'ao' }
    const scope = this.isConversationOnly ? 'c' : ''
    if (always[typed] !== undefined) {
      const [letter = '', grant = ''] = always[typed]
      return readAnswer(letter + scope + grant, question)
    }
    if (/^[apt]$/.test(typed)) return readAnswer(typed + scope, question)
    return /^[ywon1-9]$/.test(typed) ? readAnswer(typed, question) : null
  }

  prompt({ confinement, prefix, options }: QuestionView): string {
    const scope = this.isConversationOnly ? ' (in this conversation)' : ''
    const keys = [
      'y allow once',
      `a always${scope}`,
      ...(prefix === null ? [] : [`p always “${printable(prefix)}…”`]),
      ...(confinement?.sandbox ? ['w with network'] : []),
      'n deny',
      ...(options.length > 0 ? [`1–${Math.min(9, options.length)} the agent's answers`] : []),
      '? all keys',
    ]
    return keys.join(' · ')
  }
}

function textOf(typed: string | undefined): AskKey {
  // oxlint-disable-next-line no-control-regex -- keys without a character
  return typed === undefined || typed.length !== 1 || /[\u0000-\u001f\u007f]/.test(typed)
    ? { do: 'none' }
    : { do: 'text', typed }
}

export function askKeysText({ confinement, prefix, tool_name, options }: QuestionView): string {
  const lines = [
    'y    allow once',
    'a    always allow exactly this call',
    ...(prefix === null ? [] : [`p    always allow commands that begin with: ${printable(prefix)}`]),
    `t    always allow ${printable(tool_name)}, with any arguments`,
    'c    then a, p or t: in this conversation only',
    ...(confinement?.sandbox
      ? [
          'w    allow once, with network access',
          'o    allow once, outside the sandbox',
          'W    always, with network access',
          'O    always, outside the sandbox',
        ]
      : []),
    'n    deny',
    'r    deny with a reason',
    ...options.map(({ name }, index) => `${index + 1}    ${printable(name)} (the agent's own answer)`),
    'Esc  type a message first',
  ]
  return lines.map((line) => dim(`  ${line}`)).join('\n')
}
