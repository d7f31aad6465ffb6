import { createInterface } from 'node:readline/promises'
import type { Client } from '../client/index.ts'
import { RequestError } from '../client/index.ts'
import type { PendingAsk } from './conversation-view.ts'
import { bold, printable } from './output.ts'

export interface GivenAnswer {
  approved: boolean
  reason?: string
}

/** Asks the person at the terminal. Ctrl-C at the question cancels the run. */
export async function askOnTerminal(client: Client, conversationId: string, ask: PendingAsk): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  try {
    process.stdout.write(questionFor(ask))
    let given: GivenAnswer | null = null
    while (given === null) given = readAnswer(await terminal.question('[y/N, or why not] '))
    await answer(client, conversationId, ask, given)
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

export function questionFor({ name, argumentsText }: PendingAsk): string {
  return `\n${bold('allow')} ${printable(name)} ${printable(argumentsText)} ?\n`
}

/** Yes, no, or no with a reason; null when it could be either. */
export function readAnswer(typed: string): GivenAnswer | null {
  const text = typed.trim()
  if (/^(y|yes)$/i.test(text)) return { approved: true }
  if (/^y/i.test(text)) return null
  const reason = text.replace(/^(no|n)\b[\s,.:-]*/i, '')
  return { approved: false, ...(reason === '' ? {} : { reason }) }
}

/** Another client may have been faster, or the run may be over. */
export async function answer(
  client: Client,
  conversationId: string,
  { runId, toolCallId }: PendingAsk,
  given: GivenAnswer,
): Promise<void> {
  try {
    await client.answerApproval(conversationId, runId, { tool_call_id: toolCallId, ...given })
  } catch (error) {
    const codes = ['approval_not_pending', 'run_not_found']
    if (!(error instanceof RequestError) || !codes.includes(error.code)) throw error
    console.error('waymark: that question no longer stands')
  }
}
