import { createContext, use } from 'react'

/** In the timeline there is nothing to be done but look: what stands there is over. */
export const ReadOnly = createContext(false)

export function useReadOnly(): boolean {
  return use(ReadOnly)
}
