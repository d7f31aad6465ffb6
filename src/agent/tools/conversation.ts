import * as z from 'zod'
import type { ConversationId } from '../../protocol/ids.ts'
import { defineTool, type Tool, ToolError } from './tool.ts'

const DEFAULT_CHARACTERS = 20_000
const MAX_CHARACTERS = 50_000

/** Whole outcomes of calls whose frames hold only a part. */
export interface ToolResults {
  /** Stores a text and returns its reference. */
  keep(text: string): Promise<string>
  /** The whole outcome of a call on the conversation's line, or null. */
  find(tenant: string, conversationId: ConversationId, toolCallId: string): Promise<string | null>
}

/** The tools that work on the conversation itself. */
export function conversationTools(results: ToolResults): Tool[] {
  return [getToolResult(results), setTitle()]
}

function getToolResult(results: ToolResults): Tool {
  return defineTool({
    name: 'get_tool_result',
    description: 'Reads more of the outcome of an earlier call that was too long to be returned whole.',
    effects: { isRepeatable: true, files: 'none' },
    args: z.object({
      tool_call_id: z.string().min(1),
      offset: z.int().min(0).default(0).describe('The first character to read'),
      length: z.int().min(1).max(MAX_CHARACTERS).default(DEFAULT_CHARACTERS),
    }),
    async run({ tool_call_id, offset, length }, { tenant, conversationId }) {
      const whole = await results.find(tenant, conversationId, tool_call_id)
      if (whole === null) throw new ToolError('This conversation has no outcome of a call with this id.')
      const piece = whole.slice(offset, offset + length)
      return { output: `${piece}\n[characters ${offset} to ${offset + piece.length} of ${whole.length}]` }
    },
  })
}

function setTitle(): Tool {
  return defineTool({
    name: 'set_title',
    description: 'Sets the title of the conversation: a few words that describe it.',
    effects: { isRepeatable: true, files: 'none' },
    args: z.object({ title: z.string().trim().min(1).max(200) }),
    run: async ({ title }) => ({
      output: `The title is now: ${title}`,
      frames: [{ kind: 'conversation.retitled', title }],
    }),
  })
}
