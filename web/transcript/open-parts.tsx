import { createContext, type ReactNode, useContext, useMemo, useState } from 'react'

/** Which parts a person has opened or closed: remembered here, since what is out of sight is not drawn. */
type OpenParts = Map<string, boolean>

const OpenPartsContext = createContext<OpenParts>(new Map())

export function OpenPartsProvider({ children }: { children: ReactNode }) {
  const parts = useMemo<OpenParts>(() => new Map(), [])
  return <OpenPartsContext value={parts}>{children}</OpenPartsContext>
}

/** Open as it is by itself until somebody says otherwise. */
export function useOpen(key: string, byItself: boolean): [boolean, () => void] {
  const parts = useContext(OpenPartsContext)
  const [, drawAgain] = useState(0)
  const isOpen = parts.get(key) ?? byItself
  function toggle(): void {
    parts.set(key, !isOpen)
    drawAgain((count) => count + 1)
  }
  return [isOpen, toggle]
}
