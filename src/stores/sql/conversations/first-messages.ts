import { sql } from 'kysely'
import { titleFrom } from '../../../protocol/title.ts'
import type { Dialect } from '../dialect.ts'
import { all, type Script } from '../script.ts'

/** Lines that are deeper than this show no first message. */
const MAX_DEPTH = 100
/** A title needs no more of a message. */
const READ_CHARACTERS = 2000

interface FirstMessageRow {
  conversation_id: string
  frame: string
  search_text: string
}

/** Gives conversations without a title the start of their line's first message as title. */
export function* withTitles<T extends { id: string; title: string | null }>(
  dialect: Dialect,
  rows: readonly T[],
): Script<T[]> {
  const untitled = rows.filter(({ title }) => title === null).map(({ id }) => id)
  if (untitled.length === 0) return [...rows]
  const titles = new Map<string, string>()
  for (const row of yield* all(firstMessages(dialect, untitled))) {
    const title = titleFrom(startOf(row))
    // The first row of a conversation is from the segment nearest to the root.
    if (title !== '' && !titles.has(row.conversation_id)) titles.set(row.conversation_id, title)
  }
  return rows.map((row) => ({ ...row, title: row.title ?? titles.get(row.id) ?? null }))
}

function firstMessages({ db, isIn, list }: Dialect, ids: readonly string[]) {
  return {
    compile: () =>
      sql<FirstMessageRow>`
        with recursive above(conversation_id, segment, upto, depth) as (
          select c.id, c.head_segment, cast(${sql.lit(Number.MAX_SAFE_INTEGER)} as bigint), 0
            from conversations c where ${isIn('c.id', list(ids))}
          union all
          select above.conversation_id, s.parent, s.cut, above.depth + 1
            from above join segments s on s.no = above.segment
            where s.parent is not null and above.depth < ${sql.lit(MAX_DEPTH)}
        )
        select above.conversation_id, substr(e.frame, 1, ${sql.lit(READ_CHARACTERS)}) as frame,
            substr(m.search_text, 1, ${sql.lit(READ_CHARACTERS)}) as search_text
          from above
          join messages m on m.segment = above.segment and m.seq = (
            select min(x.seq) from messages x where x.segment = above.segment and x.role = 'user' and x.seq <= above.upto)
          join events e on e.segment = m.segment and e.seq = m.seq
          order by above.depth desc`.compile(db),
  }
}

/** The start of the message as it was written. The frame may end in the middle of it; a spilled frame lacks it. */
function startOf({ frame, search_text }: FirstMessageRow): string {
  const [, written] = /"content":"((?:[^"\\]|\\u[\da-f]{4}|\\[^u])*)/.exec(frame) ?? []
  return written === undefined ? search_text : (JSON.parse(`"${written}"`) as string)
}
