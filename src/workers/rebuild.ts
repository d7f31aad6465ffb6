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
    for (let isDone = false; !isDone; ) {
      const step = await upkeep.project(segment)
      events += step.projected
      isDone = step.isDone
      onProgress(events)
    }
  }
  return events
}
