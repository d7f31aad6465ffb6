export type Turns = <T>(key: string, work: () => Promise<T>) => Promise<T>

/** Runs the work for each key one after the other; a failure doesn't stop the next. */
export function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>()
  return (key, work) => {
    const next = (last.get(key) ?? Promise.resolve()).then(work, work)
    const settled = next
      .catch(() => {})
      .then(() => {
        if (last.get(key) === settled) last.delete(key)
      })
    last.set(key, settled)
    return next
  }
}
