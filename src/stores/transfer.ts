import type { Clock } from '../core/clock.ts'
import type { ExportedRow, ExportedSegment, FamilySource, FamilyTarget } from '../core/transfer.ts'
import type { SegmentId } from '../protocol/ids.ts'
import { accepted, stored } from './answers.ts'
import type { Engine } from './engine.ts'
import type { ThreadRows } from './sql/export-family.ts'
import type { Schema } from './sql/schema.ts'
import { writeOne } from './write-one.ts'

const EVENTS_AT_ONCE = 200
const RESPONSES_AT_ONCE = 50

/** Reads a family out of the store. */
export function createFamilySource(engine: Engine): FamilySource {
  const numbers = new Map<SegmentId, Promise<number>>()
  /** Blocks of requests that were read already: requests share them. */
  const known = new Set<string>()

  function numberOf({ id }: ExportedSegment): Promise<number> {
    let number = numbers.get(id)
    if (!number) {
      number = engine.read('segmentNumber', id).then((found) => {
        if (found === null) throw new Error(`the segment ${id} is gone`)
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
      const page = await engine.read('exportResponses', query)
      for (const row of page.responses) {
        const hashes = JSON.parse(row.request_blocks ?? '[]') as string[]
        const fresh = [...new Set(hashes)].filter((hash) => !known.has(hash))
        const blocks = fresh.length === 0 ? [] : await engine.read('exportBlocks', fresh)
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
    family: async (tenant, id) => accepted(await stored(engine.read('exportFamily', { tenant, id }), 'read')),
    async *events(segment) {
      const number = await numberOf(segment)
      for (let after = segment.cut; after < segment.upto; after += EVENTS_AT_ONCE) {
        const limit = Math.min(EVENTS_AT_ONCE, segment.upto - after)
        const rows = await stored(engine.read('eventsAfter', { segment: number, after, limit }), 'read')
        if (rows.length < limit) throw new Error(`events of ${segment.id} are missing after ${after}`)
        for (const { seq, frame, blob } of rows) yield { seq, frame, blob }
      }
    },
    async *rows(segment) {
      const { threads } = await engine.read('exportNames', {
        segment: await numberOf(segment),
        upto: segment.upto,
      })
      yield* responses(segment)
      for (const thread of threads) yield asRows(await engine.read('exportThread', thread))
    },
    async names(segment) {
      const query = { segment: await numberOf(segment), upto: segment.upto }
      const { blobs, checkpoints } = await engine.read('exportNames', query)
      return { blobs, checkpoints }
    },
  }
}

export function createFamilyTarget(engine: Engine, clock: Clock): FamilyTarget {
  return {
    known: (family) => stored(engine.read('knownFamily', family), 'read'),
    async abort(tenant, ids) {
      for (let isDone = false; !isDone; ) {
        ;({ isDone } = await stored(writeOne(engine, 'abortImport', { tenant, ids })))
      }
    },
    async begin(command) {
      await stored(writeOne(engine, 'beginImport', { ...command, now: clock.now() }))
    },
    async putEvents(command) {
      await writeOne(engine, 'importEvents', command)
    },
    async putRows(command) {
      await writeOne(engine, 'importRows', command)
    },
    async finish(command) {
      await stored(writeOne(engine, 'finishImport', { ...command, now: clock.now() }))
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
