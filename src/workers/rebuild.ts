import type { Upkeep } from '../core/upkeep.ts'

/** Drops the projections and rebuilds them from the ledger. Appends may continue meanwhile. */
export async function rebuildProjections(
  upkeep: Upkeep,
  onProgress: (events: number) => void = () => {},
): Promise<number> {
  await upkeep.dropProjections()
  return await catchUpProjections(upkeep, onProgress)
}

/** Projects events that are not projected yet; also resumes an interrupted rebuild. */
export async function catchUpProjections(
  upkeep: Upkeep,
  onProgress: (events: number) => void = () => {},
): Promise<number> {
  let events = 0
  for await (const segment of upkeep.segments({ onlyUnprojected: true })) {
    for (let isDone = false; !isDone; ) {
      const step = await upkeep.project(segment)
      events += step.projected
      isDone = step.isDone
      onProgress(events)
    }
  }
  return events
}
