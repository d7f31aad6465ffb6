/** Notifies waiting readers when a conversation changes. */
export interface WakeUps {
  /** Null means that any conversation may have changed. */
  wake(conversationId: string | null): void
  /** Starts listening immediately, so a change between a read and `next` isn't missed. */
  watch(conversationId: string): Watch
}

export interface Watch {
  /** Resolves when the conversation has changed since the last `next`, or the signal aborts. */
  next(signal: AbortSignal): Promise<void>
  close(): void
}

export function createWakeUps(): WakeUps {
  const watchers = new Map<string, Set<() => void>>()

  return {
    wake(conversationId) {
      const sets = conversationId === null ? watchers.values() : [watchers.get(conversationId) ?? []]
      for (const set of sets) for (const notify of set) notify()
    },
    watch(conversationId) {
      let changed = false
      let release = () => {}
      const notify = () => {
        changed = true
        release()
      }
      const set = watchers.get(conversationId) ?? new Set()
      watchers.set(conversationId, set.add(notify))
      return {
        next(signal) {
          return new Promise((resolve) => {
            const done = () => {
              changed = false
              release = () => {}
              signal.removeEventListener('abort', done)
              resolve()
            }
            if (changed || signal.aborted) return done()
            release = done
            signal.addEventListener('abort', done)
          })
        },
        close() {
          set.delete(notify)
          if (set.size === 0) watchers.delete(conversationId)
        },
      }
    },
  }
}
