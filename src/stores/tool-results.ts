import type { BlobStore } from '../core/blobs.ts'
import type { Frame } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import { accepted, stored } from './answers.ts'
import type { Engine } from './engine.ts'
import { keepText, readSpilled, unspill } from './spill.ts'

/** Whole outcomes of tool calls: the frame holds the beginning, a blob the rest. */
export function createToolResults({ engine, blobs }: { engine: Engine; blobs: BlobStore }) {
  return {
    keep: (text: string): Promise<string> => keepText(blobs, text),
    async find(tenant: string, conversationId: ConversationId, toolCallId: string): Promise<string | null> {
      const query = { tenant, conversationId, toolCallId }
      const row = accepted(await stored(engine.read('findToolOutput', query), 'read'))
      if (!row) return null
      const frame = JSON.parse(
        row.blob === null ? row.frame : await unspill(blobs, row.frame, row.blob),
      ) as Frame<'tool.output'>
      if (frame.output_ref !== undefined) return await readSpilled(blobs, frame.output_ref)
      return typeof frame.output === 'string' ? frame.output : JSON.stringify(frame.output)
    },
  }
}
