import { createContext, type ReactNode, useContext, useMemo, useState } from 'react'

/** UI state of rows, such as expanded cards and typed text; kept here because off-screen rows are unmounted. */
type KeptParts = Map<string, unknown>

const KeptPartsContext = createContext<KeptParts>(new Map())

export function OpenPartsProvider({ children }: { children: ReactNode }) {
  const parts = useMemo<KeptParts>(() => new Map(), [])
  return <KeptPartsContext value={parts}>{children}</KeptPartsContext>
}

export function useKept<T>(key: string, byItself: T): [T, (value: T) => void] {
  const parts = useContext(KeptPartsContext)
  const [, drawAgain] = useState(0)
  const value = parts.has(key) ? (parts.get(key) as T) : byItself
  function keep(next: T): void {
    parts.set(key, next)
    drawAgain((count) => count + 1)
  }
  return [value, keep]
}

/** Open state with a default that applies until the user toggles it. */
export function useOpen(key: string, byItself: boolean): [boolean, () => void] {
  const [isOpen, keep] = useKept(key, byItself)
  return [isOpen, () => keep(!isOpen)]
}
