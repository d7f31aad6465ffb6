import type { Ledger } from '../../src/core/ledger.ts'
import type { FrameDraft } from '../../src/protocol/frames.ts'
import { type ConversationId, newId } from '../../src/protocol/ids.ts'
import { startRun, TENANT } from './frames.ts'

const WORDS = 'the ledger keeps every word that was said and every file that was touched'.split(' ')

/** Fills a conversation with this many messages: user messages and their answers, as runs store them. */
export async function fillConversation(ledger: Ledger, id: ConversationId, messages: number): Promise<void> {
  for (let i = 1; i <= messages / 2; i++) {
    const run = await startRun(ledger, id)
    await ledger.append({ tenant: TENANT, conversationId: id, run, frames: turn(i) })
  }
}

function turn(i: number): FrameDraft[] {
  const place = { response_id: newId('resp'), output_index: 0, item_id: `item_${i}` }
  const call = { ...place, output_index: 1, item_id: `call_${i}`, tool_call_id: `call_${i}` }
  const answer = answerOf(i)
  const deltas = answer.split(/(?<=\s)(?=\S)/)
  return [
    {
      kind: 'message.user',
      message_id: newId('msg'),
      content: `Question ${i}: what about ${WORDS[i % WORDS.length]}?`,
    },
    { kind: 'lifecycle', status: 'in_progress' },
    { kind: 'output_item.added', ...place, item_type: 'message', role: 'assistant' },
    ...deltas.map((delta): FrameDraft => ({ kind: 'message.delta', ...place, content_index: 0, delta })),
    { kind: 'output_item.done', ...place, item_type: 'message', status: 'completed' },
    ...(i % 3 === 0 ? toolCall(call, i) : []),
    { kind: 'lifecycle', status: 'completed' },
    { kind: 'final', final: { status: 'completed', response_text: answer } },
  ]
}

function toolCall(
  call: { response_id: string; output_index: number; item_id: string; tool_call_id: string },
  i: number,
): FrameDraft[] {
  const tool = { tool_type: 'function', tool_call_id: call.tool_call_id, name: 'read_file' }
  const given = { path: `src/file-${i}.ts` }
  return [
    {
      kind: 'tool.arguments.done',
      ...call,
      tool_type: 'function',
      tool_name: 'read_file',
      arguments_text: JSON.stringify(given),
      arguments_json: given,
    },
    { kind: 'tool.output', ...call, tool_type: 'function', output: `export const file = ${i}\n` },
    { kind: 'tool.status', ...call, tool: { ...tool, status: 'completed' } },
  ]
}

/** Answers vary in length and shape, so that row heights differ. */
function answerOf(i: number): string {
  const sentence = Array.from({ length: 6 + (i % 30) }, (_, n) => WORDS[(i + n) % WORDS.length]).join(' ')
  if (i % 5 === 0)
    return `Answer ${i}: ${sentence}\n\n\`\`\`ts\nexport const answer = ${i} // ${WORDS[i % WORDS.length]}\n\`\`\`\n`
  if (i % 4 === 0) return `Answer ${i}: **${WORDS[i % WORDS.length]}**\n\n- ${sentence}\n- ${sentence}\n`
  return `Answer ${i}: ${sentence}.`
}
