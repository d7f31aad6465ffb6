import * as z from 'zod'
import type { ConversationId } from '../../protocol/ids.ts'
import { defineTool, type Tool, ToolError } from './tool.ts'

const DEFAULT_CHARACTERS = 20_000
const MAX_CHARACTERS = 50_000

/** Whole outcomes of calls, of which frames hold the beginning. */
export interface ToolResults {
  /** Keeps a text and names it. */
  keep(text: string): Promise<string>
  /** The whole outcome of a call on the conversation's line, or null. */
  find(tenant: string, conversationId: ConversationId, toolCallId: string): Promise<string | null>
}

/** The tools that are about the conversation itself. */
export function conversationTools(results: ToolResults): Tool[] {
  return [getToolResult(results), setTitle()]
}

function getToolResult(results: ToolResults): Tool {
  return defineTool({
    name: 'get_tool_result',
    description: 'Reads on in the outcome of an earlier call that was too long to be given whole.',
    isReadOnly: true,
    args: z.object({
      tool_call_id: z.string().min(1),
      offset: z.int().min(0).default(0).describe('The first character wanted'),
      length: z.int().min(1).max(MAX_CHARACTERS).default(DEFAULT_CHARACTERS),
    }),
    async run({ tool_call_id, offset, length }, { tenant, conversationId }) {
      const whole = await results.find(tenant, conversationId, tool_call_id)
      if (whole === null) throw new ToolError('There is no outcome of such a call in this conversation.')
      const piece = whole.slice(offset, offset + length)
      return { output: `${piece}\n[characters ${offset} to ${offset + piece.length} of ${whole.length}]` }
    },
  })
}

function setTitle(): Tool {
  return defineTool({
    name: 'set_title',
    description: 'Gives the conversation a title: a few words on what it is about.',
    isReadOnly: true,
    args: z.object({ title: z.string().trim().min(1).max(200) }),
    run: async ({ title }) => ({
      output: `The title is now: ${title}`,
      frames: [{ kind: 'conversation.retitled', title }],
    }),
  })
}
