/** What the demo model says, decided from what it was sent and nothing else. */

/** An item of a request's input; only what the script looks at. */
export interface InputItem {
  type?: string
  role?: string
  content?: unknown
  name?: string
  output?: unknown
}

export type Step =
  | { type: 'call'; name: string; arguments: string }
  | { type: 'say'; words: string[]; reasoning: string[] }
  | { type: 'fail'; status: number | null }

export interface Reply {
  step: Step
  /** Between two words. */
  waitMs: number
}

const VOCABULARY =
  'the ledger keeps every word that was said and every file that was touched so nothing is lost'.split(' ')

export function replyTo(items: readonly InputItem[]): Reply {
  const asked = items.findLastIndex((item) => item.role === 'user')
  const message = textOf(items[asked]?.content)
  const answered = items.slice(asked + 1).filter((item) => item.type?.endsWith('_call_output'))
  // What is to be summarized may hold directives of its own.
  if (isToSummarize(message)) {
    return { step: { type: 'say', words: summaryOf(message).split(' '), reasoning: [] }, waitMs: 0 }
  }
  const { steps, say, think, waitMs } = directivesIn(message)
  const next = steps[answered.length]
  if (next) return { step: next, waitMs }
  const words = say === null ? answerTo(message, items, answered).split(' ') : wordsOf(say)
  return { step: { type: 'say', words, reasoning: wordsOf(think) }, waitMs }
}

interface Directives {
  steps: Step[]
  /** So many words, or just these. */
  say: number | string | null
  think: number
  waitMs: number
}

/** Lines that begin with `!` direct the model: tools to call, in order, and how to answer after them. */
function directivesIn(message: string): Directives {
  const found: Directives = { steps: [], say: null, think: 0, waitMs: 0 }
  for (const line of message.split('\n')) {
    const match = /^!([A-Za-z_][\w-]*)\s*(.*)$/s.exec(line.trim())
    if (!match) continue
    const [, name = '', rest = ''] = match
    const number = Math.max(0, Math.trunc(Number(rest) || 0))
    if (name === 'say') found.say = textIn(rest) ?? number
    else if (name === 'think') found.think = number
    else if (name === 'wait') found.waitMs = number
    else if (name === 'fail') found.steps.push({ type: 'fail', status: number >= 400 ? number : null })
    else found.steps.push({ type: 'call', name, arguments: rest || '{}' })
  }
  return found
}

function answerTo(message: string, items: readonly InputItem[], answered: readonly InputItem[]): string {
  if (answered.length > 0) {
    const last = firstLine(textOf(answered.at(-1)?.output))
    return `Done: ${counted(answered.length, 'call')}. The last one said: ${last}`
  }
  if (/what(?:'s|’s| is) my name/i.test(message)) {
    const name = nameIn(items)
    return name ? `Your name is ${name}.` : 'I do not know your name: nothing that I was sent tells it.'
  }
  const name = nameIn([{ role: 'user', content: message }])
  return `${name ? `Hello ${name}.` : 'This is the demo model.'} ${describe(items)}`
}

function isToSummarize(message: string): boolean {
  return message.startsWith('Summarize the conversation')
}

const SUMMARIZED = 12

/** The name, if one was given, and how the last messages began. */
function summaryOf(message: string): string {
  const name = nameIn([{ role: 'user', content: message }])
  const said = [...message.matchAll(/^person: (.*)$/gm)].map(([, text = '']) =>
    text.split(' ').slice(0, 5).join(' '),
  )
  const topics = said.slice(-SUMMARIZED).join('; ')
  return `${name ? `The person said: my name is ${name}. ` : ''}They talked about: ${topics}.`
}

/** The last name that a person gave, in the context that was sent. */
function nameIn(items: readonly InputItem[]): string | null {
  for (const item of items.toReversed()) {
    // Ignore names in files and snippets.
    if (item.role !== 'user' || isAround(item)) continue
    const found = [
      ...textOf(item.content).matchAll(/\b(?:I am|I['’]m|my name is)\s+(\p{L}[\p{L}'’-]*)/giu),
    ].at(-1)
    if (found?.[1]) return found[1]
  }
  return null
}

/** Context that is sent with a question and that no one wrote as a message. */
function isAround(item: InputItem): boolean {
  return (
    item.role === 'user' &&
    /^<(active_file|changed_file|snippet|deleted_file|attachment)\b/.test(textOf(item.content))
  )
}

function describe(items: readonly InputItem[]): string {
  const said = items.filter((item) => !isAround(item))
  const messages = said.filter((item) => item.role === 'user' || item.role === 'assistant').length
  const outcomes = items.filter((item) => item.type?.endsWith('_call_output')).length
  const tools = outcomes > 0 ? ` and ${counted(outcomes, 'tool result')}` : ''
  return `I was sent ${counted(messages, 'message')}${tools}, about ${tokensOf(items)} tokens. Set OPENAI_API_KEY to talk to a real model.`
}

export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: { text?: unknown }) => (typeof part.text === 'string' ? part.text : ''))
    .join('\n')
}

/** An estimate: four characters a token. */
export function tokensOf(value: unknown): number {
  return Math.ceil(JSON.stringify(value).length / 4)
}

/** A text in quotes, as JSON writes it. */
function textIn(rest: string): string | null {
  try {
    const value: unknown = JSON.parse(rest)
    return typeof value === 'string' ? value : null
  } catch {
    return null
  }
}

function wordsOf(count: number | string): string[] {
  if (typeof count === 'string') return count.split(' ')
  return Array.from({ length: count }, (_, index) => VOCABULARY[index % VOCABULARY.length] ?? '')
}

function firstLine(text: string): string {
  const line = text.split('\n')[0] ?? ''
  return line.length > 200 ? `${line.slice(0, 199)}…` : line
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
