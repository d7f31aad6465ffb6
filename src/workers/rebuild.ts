import type { Upkeep } from '../core/upkeep.ts'

/** Forgets the projections and makes them again from the ledger. Appends may go on meanwhile. */
export async function rebuildProjections(
  upkeep: Upkeep,
  onProgress: (events: number) => void = () => {},
): Promise<number> {
  await upkeep.dropProjections()
  return await catchUpProjections(upkeep, onProgress)
}

/** Projects what is not projected yet: after a rebuild that was cut short, this carries it on. */
export async function catchUpProjections(
  upkeep: Upkeep,
  onProgress: (events: number) => void = () => {},
): Promise<number> {
  let events = 0
  for await (const segment of upkeep.segments({ onlyUnprojected: true })) {
    let before = segment.projectedSeq
    for (;;) {
      const { projectedSeq, seq } = await upkeep.project(segment)
      events += projectedSeq - before
      before = projectedSeq
      onProgress(events)
      if (projectedSeq >= seq) break
    }
  }
  return events
}
