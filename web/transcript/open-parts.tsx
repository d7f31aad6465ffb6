import { createContext, type ReactNode, useContext, useMemo, useState } from 'react'

/** What a person has opened, closed or begun to write in rows: kept here, since what is out of sight is not drawn. */
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

/** Has its default until a person opens or closes it. */
export function useOpen(key: string, byItself: boolean): [boolean, () => void] {
  const [isOpen, keep] = useKept(key, byItself)
  return [isOpen, () => keep(!isOpen)]
}
