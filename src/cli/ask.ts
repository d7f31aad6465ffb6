import { createInterface } from 'node:readline/promises'
import type { Client } from '../client/index.ts'
import { RequestError } from '../client/index.ts'
import type { PendingAsk } from './conversation-view.ts'
import { bold, printable } from './output.ts'

/** Asks the person at the terminal; where there is none, says how to answer. */
export async function askOnTerminal(client: Client, conversationId: string, ask: PendingAsk): Promise<void> {
  if (!process.stdin.isTTY) {
    console.error(`waymark: ${ask.name} waits for an answer; give it with: waymark chat ${conversationId}`)
    return
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  try {
    await answer(client, conversationId, ask, await terminal.question(questionFor(ask)))
  } finally {
    terminal.close()
  }
}

export function questionFor({ name, argumentsText }: PendingAsk): string {
  return `\n${bold('allow')} ${printable(name)} ${printable(argumentsText)} ? [y/N, or a reason why not] `
}

/** What was typed, as an answer: yes, no, or no with a reason. Another client may have been faster. */
export async function answer(
  client: Client,
  conversationId: string,
  { runId, toolCallId }: PendingAsk,
  typed: string,
): Promise<void> {
  const approved = /^(y|yes)$/i.test(typed.trim())
  const reason = approved || /^(n|no)?$/i.test(typed.trim()) ? undefined : typed.trim()
  try {
    await client.answerApproval(conversationId, runId, {
      tool_call_id: toolCallId,
      approved,
      ...(reason === undefined ? {} : { reason }),
    })
  } catch (error) {
    const codes = ['approval_not_pending', 'run_not_found']
    if (!(error instanceof RequestError) || !codes.includes(error.code)) throw error
    console.error('waymark: that has been answered already')
  }
}
