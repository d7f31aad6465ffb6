import { useQuery } from '@tanstack/react-query'
import type { About, Scope } from '../src/protocol/api/service.ts'
import { keys, server } from './server.ts'

export function useAbout() {
  return useQuery<About>({ queryKey: keys.about, queryFn: () => server.about(), staleTime: Infinity })
}

/** Whether whoever looks may do this; until that is known, they may. */
export function useMay(scope: Scope): boolean {
  return useAbout().data?.scopes.includes(scope) ?? true
}
