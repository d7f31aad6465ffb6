import type { BlobStore } from '../core/blobs.ts'
import type { Frame } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { Database } from './database.ts'
import { keepText, readSpilled, unspill } from './spill.ts'

/** Stores and finds full tool outputs: a frame holds only the beginning of a long one, a blob all of it. */
export function createToolResults({ database, blobs }: { database: Database; blobs: BlobStore }) {
  return {
    keep: (text: string): Promise<string> => keepText(blobs, text),
    async find(tenant: string, conversationId: ConversationId, toolCallId: string): Promise<string | null> {
      const query = { tenant, conversationId, toolCallId }
      const row = await database.read('findToolOutput', query)
      if (!row) return null
      const frame = JSON.parse(
        row.blob === null ? row.frame : await unspill(blobs, row.frame, row.blob),
      ) as Frame<'tool.output'>
      if (frame.output_ref !== undefined) return await readSpilled(blobs, frame.output_ref)
      return typeof frame.output === 'string' ? frame.output : JSON.stringify(frame.output)
    },
  }
}
