import { useQuery } from '@tanstack/react-query'
import type { About, Scope } from '../src/protocol/api/service.ts'
import { keys, server } from './server.ts'

export function useAbout() {
  return useQuery<About>({ queryKey: keys.about, queryFn: () => server.about(), staleTime: Infinity })
}

/** Whether the signed-in token may do this; true until that is known. */
export function useMay(scope: Scope): boolean {
  return useAbout().data?.scopes.includes(scope) ?? true
}
