import { createInterface } from 'node:readline/promises'
import type { Client } from '../client/index.ts'
import { RequestError } from '../client/index.ts'
import type { AnswerApproval, QuestionView } from '../protocol/api/runs.ts'
import { visibleFields } from '../protocol/visible-text.ts'
import type { PendingAsk } from './conversation-session.ts'
import { bold, dim, printable, say } from './output.ts'

export type GivenAnswer = Pick<AnswerApproval, 'approved' | 'reason' | 'grant' | 'always' | 'option_id'>

/** Asks for approval on the terminal. Ctrl-C at the prompt cancels the run. */
export async function askOnTerminal(client: Client, conversationId: string, ask: PendingAsk): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  try {
    const question = await readQuestion(client, conversationId, ask)
    if (!question) return
    process.stdout.write(questionText(question))
    let given: GivenAnswer | null = null
    while (given === null) {
      given = readAnswer(await terminal.question(prompt(question)), question)
      if (given === null) console.log(answersText(question))
    }
    await answer(client, conversationId, ask, given, question)
  } catch (error) {
    if ((error as Error).name !== 'AbortError') throw error
    await client.cancelRun(conversationId, ask.runId)
  } finally {
    terminal.close()
  }
}

/** Denies the call when there is no terminal to ask on. */
export async function denyUnattended(client: Client, conversationId: string, ask: PendingAsk): Promise<void> {
  // A script must notice.
  process.exitCode = 1
  console.error(
    `waymark: ${printable(ask.name)} was denied: approval needs a terminal. Answer in the page, or run \`waymark chat\`.`,
  )
  await answer(client, conversationId, ask, {
    approved: false,
    reason: 'there was no terminal to ask for approval',
  })
}

/** The full question, or null when it is no longer pending. */
export async function readQuestion(
  client: Client,
  conversationId: string,
  { runId, toolCallId }: PendingAsk,
): Promise<QuestionView | null> {
  return await unlessOver(client.question(conversationId, runId, toolCallId))
}

const NARROWEST = 20

/**
 * The full call with nothing hidden, because exactly this call runs. Lines are wrapped inside the frame and values are
 * indented, so that no value can pass for a field or for Waymark's own text.
 */
export function questionText(
  { tool_name, arguments: written, confinement }: QuestionView,
  columns: number = process.stdout.columns || 80,
): string {
  const width = Math.max(NARROWEST, columns - 6)
  const lines = visibleFields(written).flatMap(({ name, text }) => [
    ...(name === '' ? [] : wrapped(`${name}:`, width)),
    ...text.split('\n').flatMap((line) => wrapped(line, width - 2).map((part) => `  ${part}`)),
  ])
  const framed = lines.map((line) => `  ${dim('│')} ${line}`).join('\n')
  const where = confinement ? `  ${dim(confinementText(confinement))}\n` : ''
  return `\n${bold('Allow')} ${printable(tool_name)}${bold('?')}\n${framed}\n${where}`
}

/** Splits a line into pieces of `width` columns, counting non-ASCII characters as two. */
function wrapped(line: string, width: number): string[] {
  const pieces: string[] = []
  let piece = ''
  let used = 0
  for (const { segment } of new Intl.Segmenter().segment(line.replaceAll('\t', '    '))) {
    const size = segment.charCodeAt(0) < 128 && segment.length === 1 ? 1 : 2
    if (used + size > width) {
      pieces.push(piece)
      piece = ''
      used = 0
    }
    piece += segment
    used += size
  }
  return [...pieces, piece]
}

export function prompt({ confinement, prefix }: QuestionView): string {
  const wider = prefix === null ? '' : 'p/'
  return confinement?.sandbox ? `[y/a/${wider}w/o/n, ? for help] ` : `[y/a/${wider}n, ? for help] `
}

export function answersText({ confinement, prefix, tool_name, options }: QuestionView): string {
  const lines = [
    'y    allow once',
    'a    always allow exactly this call',
    ...(prefix === null ? [] : [`p    always allow commands that begin with: ${printable(prefix)}`]),
    `t    always allow ${printable(tool_name)}, with any arguments`,
    'pc, tc, ac   the same, in this conversation only',
    ...(confinement?.sandbox
      ? [
          'w    allow with network access',
          'o    allow outside the sandbox',
          'aw   always, with network access',
          'ao   always, outside the sandbox',
        ]
      : []),
    'n    deny, optionally with a reason: n not now',
    ...options.map(({ name }, index) => `${index + 1}    ${printable(name)} (the agent's own answer)`),
  ]
  return lines.map((line) => dim(`  ${line}`)).join('\n')
}

function confinementText({
  sandbox,
  network,
  wants_network,
}: NonNullable<QuestionView['confinement']>): string {
  if (sandbox === null) return 'Runs with your permissions, without a sandbox.'
  const request = wants_network && !network ? ' The agent requests network access.' : ''
  return `Runs in a sandbox (${sandbox}), ${network ? 'with' : 'without'} network access.${request}`
}

const matches: Record<string, 'exact' | 'prefix' | 'tool'> = { a: 'exact', p: 'prefix', t: 'tool' }

/** Null for invalid input; the caller then asks again. */
export function readAnswer(
  typed: string,
  { confinement, prefix, options }: QuestionView,
): GivenAnswer | null {
  const text = typed.trim()
  const option = /^\d+$/.test(text) ? options[Number(text) - 1] : undefined
  if (option) return { approved: option.kind.startsWith('allow'), option_id: option.id }
  const letters = text.toLowerCase() === 'yes' ? 'y' : text.toLowerCase()
  const isOffered = confinement?.sandbox ? /^(y|w|o|[apt]c?[wo]?)$/ : /^(y|[apt]c?)$/
  if (isOffered.test(letters) && !(letters.startsWith('p') && prefix === null)) {
    const grant = { network: letters.includes('w'), outside: letters.includes('o') }
    const match = matches[letters[0] ?? '']
    const scope = letters.includes('c') ? ('conversation' as const) : ('workspace' as const)
    return { approved: true, grant, always: match ? { match, scope } : false }
  }
  if (text !== '' && !/^no?\b/i.test(text)) return null
  const reason = text.replace(/^no?\b[\s,.:-]*/i, '')
  return { approved: false, ...(reason === '' ? {} : { reason }) }
}

export async function answer(
  client: Client,
  conversationId: string,
  { runId, toolCallId }: PendingAsk,
  given: GivenAnswer,
  question: Pick<QuestionView, 'question_sha256'> | null = null,
): Promise<void> {
  const named = question === null ? {} : { question_sha256: question.question_sha256 }
  const body = { tool_call_id: toolCallId, ...given, ...named }
  await unlessOver(client.answerApproval(conversationId, runId, body))
  if (given.always) say(dim('Such calls no longer need approval. `waymark rules` lists and removes rules.'))
}

/** Null when another client has answered or the run has ended. */
async function unlessOver<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (error) {
    const codes = ['approval_not_pending', 'run_not_found']
    if (!(error instanceof RequestError) || !codes.includes(error.code)) throw error
    say('waymark: this approval is no longer pending')
    return null
  }
}
