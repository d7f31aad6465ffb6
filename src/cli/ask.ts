import { createInterface } from 'node:readline/promises'
import type { Client } from '../client/index.ts'
import { RequestError } from '../client/index.ts'
import type { AnswerApproval, QuestionView } from '../protocol/api/runs.ts'
import { visibleArguments } from '../protocol/visible-text.ts'
import type { PendingAsk } from './conversation-view.ts'
import { bold, dim, printable } from './output.ts'

export type GivenAnswer = Pick<AnswerApproval, 'approved' | 'reason' | 'grant' | 'always'>

/** Asks the person at the terminal. Ctrl-C at the question cancels the run. */
export async function askOnTerminal(client: Client, conversationId: string, ask: PendingAsk): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  try {
    const question = await readQuestion(client, conversationId, ask)
    if (!question) return
    process.stdout.write(questionText(question))
    let given: GivenAnswer | null = null
    while (given === null) given = readAnswer(await terminal.question(prompt(question)))
    await answer(client, conversationId, ask, given, question)
  } catch (error) {
    if ((error as Error).name !== 'AbortError') throw error
    await client.cancelRun(conversationId, ask.runId)
  } finally {
    terminal.close()
  }
}

/** Where nobody can be asked, the answer is no. */
export async function denyUnattended(client: Client, conversationId: string, ask: PendingAsk): Promise<void> {
  console.error(`waymark: ${ask.name} was refused: there is no terminal to ask at`)
  await answer(client, conversationId, ask, { approved: false, reason: 'nobody was there to ask' })
}

/** The whole question, or null when it no longer stands. */
export async function readQuestion(
  client: Client,
  conversationId: string,
  { runId, toolCallId }: PendingAsk,
): Promise<QuestionView | null> {
  return await unlessOver(client.question(conversationId, runId, toolCallId))
}

/** All of it, with nothing that is hidden: what is agreed to here is what runs. */
export function questionText({ tool_name, arguments: written, confinement }: QuestionView): string {
  const lines = visibleArguments(written).split('\n')
  const framed = lines.map((line) => `  ${dim('│')} ${line}`).join('\n')
  const where = confinement ? `  ${dim(confinementText(confinement))}\n` : ''
  return `\n${bold('Allow')} ${printable(tool_name)}${bold('?')}\n${framed}\n${where}`
}

export function prompt({ confinement }: QuestionView): string {
  const more = confinement?.sandbox ? ', n+ with network, o outside the sandbox' : ''
  return `[y yes, a always${more}; anything else: no, and why] `
}

function confinementText({
  sandbox,
  network,
  wants_network,
}: NonNullable<QuestionView['confinement']>): string {
  const place = sandbox === null ? 'runs as you, without a sandbox' : `runs in a sandbox (${sandbox})`
  const net = sandbox !== null ? (network ? ', with network' : ', without network') : ''
  return `${place}${net}${wants_network && !network ? '; it asks for the network' : ''}`
}

/** Yes, no, or no with a reason; null when it could be either. */
export function readAnswer(typed: string): GivenAnswer | null {
  const text = typed.trim()
  if (/^(y|yes)$/i.test(text)) return { approved: true }
  if (/^(a|always)$/i.test(text)) return { approved: true, always: true }
  if (/^n\+$/i.test(text)) return { approved: true, grant: { network: true } }
  if (/^o$/i.test(text)) return { approved: true, grant: { outside: true } }
  if (/^y/i.test(text)) return null
  const reason = text.replace(/^(no|n)\b[\s,.:-]*/i, '')
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
}

/** Another client may have been faster, or the run may be over. */
async function unlessOver<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (error) {
    const codes = ['approval_not_pending', 'run_not_found']
    if (!(error instanceof RequestError) || !codes.includes(error.code)) throw error
    console.error('waymark: that question no longer stands')
    return null
  }
}
