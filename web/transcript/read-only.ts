import { createContext, use } from 'react'

/** True in the timeline, which shows the past and offers no actions. */
export const ReadOnly = createContext(false)

export function useReadOnly(): boolean {
  return use(ReadOnly)
}
