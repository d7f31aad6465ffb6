import type { Clock } from '../core/clock.ts'
import type { ExportedRow, ExportedSegment, FamilySource, FamilyTarget } from '../core/transfer.ts'
import type { SegmentId } from '../protocol/ids.ts'
import type { Database } from './database.ts'
import { readLayout } from './sql/context/request-blocks.ts'
import type { Schema } from './sql/schema.ts'
import type { ThreadRows } from './sql/transfer/export-family.ts'

const EVENTS_AT_ONCE = 200
const RESPONSES_AT_ONCE = 50

/** Reads a family from the store. */
export function createFamilySource(database: Database): FamilySource {
  const numbers = new Map<SegmentId, Promise<number>>()
  /** Request blocks already exported: requests share blocks. */
  const known = new Set<string>()

  function numberOf({ id }: ExportedSegment): Promise<number> {
    let number = numbers.get(id)
    if (!number) {
      number = database.read('segmentNumber', id).then((found) => {
        if (found === null) throw new Error(`the segment ${id} no longer exists`)
        return found
      })
      numbers.set(id, number)
    }
    return number
  }

  async function* responses(segment: ExportedSegment): AsyncGenerator<ExportedRow[]> {
    const number = await numberOf(segment)
    for (let after = ''; ; ) {
      const query = { segment: number, upto: segment.upto, after, limit: RESPONSES_AT_ONCE }
      const page = await database.read('exportResponses', query)
      for (const row of page.responses) {
        const hashes = readLayout(row.request_blocks).blocks
        const fresh = [...new Set(hashes)].filter((hash) => !known.has(hash))
        const blocks = fresh.length === 0 ? [] : await database.read('exportBlocks', fresh)
        for (const hash of fresh) known.add(hash)
        yield [
          ...blocks.map(({ hash, bytes }) => ({
            table: 'request_blocks' as const,
            row: { hash, bytes: base64(bytes) },
          })),
          { table: 'responses', row: { ...row, segment: segment.id } },
          ...page.ends
            .filter((end) => end.id === row.id)
            .map((end) => ({ table: 'response_ends' as const, row: { ...end, segment: segment.id } })),
        ]
      }
      const last = page.responses.at(-1)
      if (!last) return
      after = last.id
    }
  }

  return {
    family: async (tenant, id) => await database.read('exportFamily', { tenant, id }),
    async *events(segment) {
      const number = await numberOf(segment)
      for (let after = segment.cut; after < segment.upto; after += EVENTS_AT_ONCE) {
        const limit = Math.min(EVENTS_AT_ONCE, segment.upto - after)
        const rows = await database.read('eventsAfter', { segment: number, after, limit })
        if (rows.length < limit) throw new Error(`events of ${segment.id} are missing after ${after}`)
        for (const { seq, frame, blob } of rows) yield { seq, frame, blob }
      }
    },
    async *rows(segment) {
      const { threads } = await database.read('exportNames', {
        segment: await numberOf(segment),
        upto: segment.upto,
      })
      yield* responses(segment)
      for (const thread of threads) yield asRows(await database.read('exportThread', thread))
    },
    async names(segment) {
      const query = { segment: await numberOf(segment), upto: segment.upto }
      const { blobs, checkpoints } = await database.read('exportNames', query)
      return { blobs, checkpoints }
    },
  }
}

export function createFamilyTarget(database: Database, clock: Clock): FamilyTarget {
  return {
    known: (family) => database.read('knownFamily', family),
    async abort(tenant, ids) {
      for (let isDone = false; !isDone; ) {
        ;({ isDone } = await database.write('abortImport', { tenant, ids }))
      }
    },
    async begin(command) {
      await database.write('beginImport', { ...command, now: clock.now() })
    },
    async putEvents(command) {
      await database.write('importEvents', command)
    },
    async putRows(rows) {
      await database.write('importRows', rows)
    },
    async finish(command) {
      await database.write('finishImport', { ...command, now: clock.now() })
    },
  }
}

function asRows({ states, values, writes, chunks }: ThreadRows): ExportedRow[] {
  const valueRow = <T extends Schema['agent_values']>(row: T) => ({ ...row, value: base64(row.value) })
  return [
    ...states.map((row) => ({
      table: 'agent_states' as const,
      row: { ...row, state: base64(row.state), metadata: base64(row.metadata) },
    })),
    ...values.map((row) => ({ table: 'agent_values' as const, row: valueRow(row) })),
    ...writes.map((row) => ({ table: 'agent_writes' as const, row: valueRow(row) })),
    ...chunks.map((row) => ({ table: 'entry_chunks' as const, row: { ...row, bytes: base64(row.bytes) } })),
  ]
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64')
}
