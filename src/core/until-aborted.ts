/** Rejects with the signal's reason as soon as it aborts. The work itself continues. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason)
    if (signal.aborted) return stop()
    signal.addEventListener('abort', stop, { once: true })
    void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}

/** Like `untilAborted`, but gives the work `graceMs` to end by itself. */
export async function untilAbortedFor<T>(work: Promise<T>, signal: AbortSignal, graceMs: number): Promise<T> {
  const late = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const wait = () => {
    timer = setTimeout(() => late.abort(signal.reason), graceMs)
  }
  if (signal.aborted) wait()
  else signal.addEventListener('abort', wait, { once: true })
  try {
    return await untilAborted(work, late.signal)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', wait)
  }
}
