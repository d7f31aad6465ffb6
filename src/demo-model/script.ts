/** Decides the demo model's reply from the request alone. */

/** An item of a request's input, with only the fields that the script reads. */
export interface InputItem {
  type?: string
  role?: string
  content?: unknown
  name?: string
  output?: unknown
}

export interface ScriptedCall {
  name: string
  arguments: string
}

export type Step =
  /** Calls of one answer. */
  | { type: 'calls'; calls: ScriptedCall[]; reasoning: string[] }
  | { type: 'say'; words: string[]; reasoning: string[] }
  | Fault

/** A fault of the server; `times` is how often it happens for the same message before it works. */
export type Fault =
  /** Refuses the request, or fails in the middle of the answer if there is no status. */
  | { type: 'fail'; status: number | null; times: number }
  /** Sends a few words and then nothing, or closes the connection. */
  | { type: 'hang'; times: number }
  | { type: 'break'; times: number }

/** What the demo model says when a message tells it to fail. */
export const SCRIPTED_FAILURE = 'The demo model was told to fail.'

export interface Reply {
  step: Step
  /** The pause between two words. */
  waitMs: number
}

const VOCABULARY =
  'the ledger keeps every word that was said and every file that was touched so nothing is lost'.split(' ')

/** `faultsSoFar` counts the faults that this message has already caused. */
export function replyTo(items: readonly InputItem[], faultsSoFar = 0): Reply {
  const asked = items.findLastIndex((item) => item.role === 'user')
  const message = textOf(items[asked]?.content)
  const answered = items.slice(asked + 1).filter((item) => item.type?.endsWith('_call_output'))
  // A text to summarize may contain directives, which must not be followed.
  if (isToSummarize(message)) {
    return { step: { type: 'say', words: summaryOf(message).split(' '), reasoning: [] }, waitMs: 0 }
  }
  const { steps, say, think, waitMs } = directivesIn(message)
  const next = nextStep(steps, answered.length, faultsSoFar)
  // It thinks once, before its first step.
  const reasoning = answered.length === 0 ? wordsOf(think) : []
  if (next) return { step: next.type === 'calls' ? { ...next, reasoning } : next, waitMs }
  const words = say === null ? answerTo(message, items, answered).split(' ') : wordsOf(say)
  return { step: { type: 'say', words, reasoning }, waitMs }
}

/** The first step that is neither answered nor, if it is a fault, used up. */
function nextStep(steps: readonly Step[], answered: number, faultsSoFar: number): Step | null {
  let [calls, faults] = [answered, faultsSoFar]
  for (const step of steps) {
    if (step.type === 'calls') {
      calls -= step.calls.length
      if (calls < 0) return step
    } else if (step.type !== 'say') {
      faults -= step.times
      if (faults < 0) return step
    }
  }
  return null
}

/** The message that a request asks about. */
export function questionIn(items: readonly InputItem[]): string {
  return textOf(items.findLast((item) => item.role === 'user')?.content)
}

interface Directives {
  steps: Step[]
  /** The number of words, or the words themselves. */
  say: number | string | null
  think: number
  waitMs: number
}

/**
 * Lines that begin with `!` direct the model: tools to call, in order, and how to answer afterwards. `!+name` calls a tool in
 * the same answer as the line before it.
 */
function directivesIn(message: string): Directives {
  const found: Directives = { steps: [], say: null, think: 0, waitMs: 0 }
  for (const line of message.split('\n')) {
    const match = /^!(\+?)([A-Za-z_][\w-]*)\s*(.*)$/s.exec(line.trim())
    if (!match) continue
    const [, plus = '', name = '', rest = ''] = match
    const [number, times] = numbersIn(rest)
    if (name === 'say') found.say = textIn(rest) ?? number
    else if (name === 'think') found.think = number
    else if (name === 'wait') found.waitMs = number
    else if (name === 'fail') {
      found.steps.push({ type: 'fail', status: number >= 400 ? number : null, times: times || ALWAYS })
    } else if (name === 'hang' || name === 'break') found.steps.push({ type: name, times: number || ALWAYS })
    else addCall(found.steps, { name, arguments: rest || '{}' }, plus !== '')
  }
  return found
}

const ALWAYS = 1_000_000

function numbersIn(rest: string): [number, number] {
  const [first = 0, second = 0] = rest.split(/\s+/).map((word) => Math.max(0, Math.trunc(Number(word) || 0)))
  return [first, second]
}

function addCall(steps: Step[], call: ScriptedCall, isTogether: boolean): void {
  const last = steps.at(-1)
  if (isTogether && last?.type === 'calls') last.calls.push(call)
  else steps.push({ type: 'calls', calls: [call], reasoning: [] })
}

function answerTo(message: string, items: readonly InputItem[], answered: readonly InputItem[]): string {
  if (answered.length > 0) {
    const last = firstLine(textOf(answered.at(-1)?.output))
    return `Done: ${counted(answered.length, 'call')}. The last one returned: ${last}`
  }
  if (/what(?:'s|’s| is) my name/i.test(message)) {
    const name = nameIn(items)
    return name
      ? `Your name is ${name}.`
      : 'I do not know your name: it is not in the context that I was sent.'
  }
  const name = nameIn([{ role: 'user', content: message }])
  return `${name ? `Hello ${name}.` : 'This is the demo model.'} ${describe(items)}`
}

function isToSummarize(message: string): boolean {
  return message.startsWith('Summarize the conversation')
}

const SUMMARIZED = 12

/** The name, if one was given, and the first words of the last messages. */
function summaryOf(message: string): string {
  const name = nameIn([{ role: 'user', content: message }])
  const said = [...message.matchAll(/^person: (.*)$/gm)].map(([, text = '']) =>
    text.split(' ').slice(0, 5).join(' '),
  )
  const topics = said.slice(-SUMMARIZED).join('; ')
  return `${name ? `The person said: my name is ${name}. ` : ''}They talked about: ${topics}.`
}

/** The most recent name that a person gave, in the context that was sent. */
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

/** True for context that is sent with a message and is not a message itself. */
function isAround(item: InputItem): boolean {
  return (
    item.role === 'user' &&
    /^<(active_file|project_instructions|changed_file|snippet|deleted_file|attachment)\b/.test(
      textOf(item.content),
    )
  )
}

function describe(items: readonly InputItem[]): string {
  const said = items.filter((item) => !isAround(item))
  const messages = said.filter((item) => item.role === 'user' || item.role === 'assistant').length
  const outcomes = items.filter((item) => item.type?.endsWith('_call_output')).length
  const tools = outcomes > 0 ? ` and ${counted(outcomes, 'tool result')}` : ''
  const images = imagesIn(items) > 0 ? ` with ${counted(imagesIn(items), 'image')}` : ''
  return `I was sent ${counted(messages, 'message')}${images}${tools}, about ${tokensOf(items)} tokens. Set OPENAI_API_KEY or ANTHROPIC_API_KEY to talk to a real model.`
}

function imagesIn(items: readonly InputItem[]): number {
  const isImage = ({ type }: { type?: unknown }) => type === 'input_image' || type === 'image_url'
  return items.reduce((sum, item) => {
    const parts: { type?: unknown }[] = Array.isArray(item.content) ? item.content : [item]
    return sum + parts.filter(isImage).length
  }, 0)
}

export function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: { text?: unknown }) => (typeof part.text === 'string' ? part.text : ''))
    .join('\n')
}

/** An estimate: four characters per token. */
export function tokensOf(value: unknown): number {
  return Math.ceil(JSON.stringify(value).length / 4)
}

/** Parses a JSON string; null for anything else. */
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

/** Words with the space that follows them. */
export function* pieces(words: readonly string[]): Generator<string> {
  for (const [index, word] of words.entries()) yield index < words.length - 1 ? `${word} ` : word
}

function firstLine(text: string): string {
  const line = text.split('\n')[0] ?? ''
  return line.length > 200 ? `${line.slice(0, 199)}…` : line
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
