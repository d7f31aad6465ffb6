import { useQuery } from '@tanstack/react-query'
import type { About, Scope } from '../src/protocol/api/service.ts'
import { keys, server } from './server.ts'

export function useAbout() {
  return useQuery<About>({ queryKey: keys.about, queryFn: () => server.about(), staleTime: Infinity })
}

/** True if the token has this scope, or until its scopes are loaded. */
export function useMay(scope: Scope): boolean {
  return useAbout().data?.scopes.includes(scope) ?? true
}
