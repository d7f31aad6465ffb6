import type { Ledger, PageQuery } from '../core/ledger.ts'
import type { Cursor } from '../protocol/cursor.ts'
import type { AnyFrame } from '../protocol/frames.ts'
import type { ConversationId } from '../protocol/ids.ts'

const FRAMES_AT_ONCE = 500

/** The frames of a line after a cursor; all of them without one. */
export async function framesAfter(
  ledger: Pick<Ledger, 'page'>,
  { tenant, conversationId }: { tenant: string; conversationId: ConversationId },
  cursor: Cursor | null,
): Promise<AnyFrame[]> {
  const frames: AnyFrame[] = []
  const query: PageQuery = { tenant, conversationId, cursor, limit: FRAMES_AT_ONCE }
  for (;;) {
    const page = await ledger.page(query)
    for (const text of page.frames) frames.push(JSON.parse(text) as AnyFrame)
    query.cursor = page.last
    if (page.atEnd) return frames
  }
}
