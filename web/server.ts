import { QueryCache, QueryClient } from '@tanstack/react-query'
import { ConnectionError, createClient, RequestError } from '../src/client/index.ts'
import { text } from './text.ts'

/** The server that served this page. */
export const server = createClient({ url: '', token: () => localStorage.getItem('waymark_session') ?? '' })

export const queries = new QueryClient({
  queryCache: new QueryCache({ onError: leaveIfSignedOut }),
  defaultOptions: {
    queries: {
      // Retry while the server restarts, but not after a refusal.
      retry: (failures, error) => failures < 3 && !(error instanceof RequestError && !error.mayPass),
      refetchOnWindowFocus: true,
      staleTime: 1000,
    },
  },
})

/** Query keys. A mutation invalidates the keys of what it changes. */
export const keys = {
  about: ['about'] as const,
  ready: ['ready'] as const,
  projects: ['projects'] as const,
  models: ['models'] as const,
  agents: ['agents'] as const,
  rules: ['rules'] as const,
  conversations: ['conversations'] as const,
  conversation: (id: string) => ['conversation', id] as const,
  work: (id: string) => ['work', id] as const,
  files: (id: string) => ['files', id] as const,
  responses: (id: string) => ['responses', id] as const,
  memory: (id: string) => ['memory', id] as const,
  tree: (id: string) => ['tree', id] as const,
  attachment: (id: string, sha256: string) => ['attachment', id, sha256] as const,
  output: (id: string, toolCallId: string | null) => ['output', id, toolCallId] as const,
  question: (id: string, runId: string, toolCallId: string) => ['question', id, runId, toolCallId] as const,
  preview: (key: string) => ['preview', key] as const,
}

/** Refetches everything shown of this conversation, after files, titles or lines have changed. */
export function refresh(id: string): void {
  const parts = [keys.conversations, keys.conversation(id), keys.work(id), keys.files(id), keys.tree(id)]
  for (const queryKey of parts) void queries.invalidateQueries({ queryKey })
}

let isLeaving = false
addEventListener('pageshow', () => {
  isLeaving = false
})

/** Sends a signed-out browser to the sign-in page; drafts are kept. */
export function leaveIfSignedOut(error: unknown): void {
  if (!(error instanceof RequestError) || error.status !== 401 || isLeaving) return
  isLeaving = true
  location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`)
}

/** Turns an error into a message for the user. */
export function explain(error: unknown): string {
  if (error instanceof ConnectionError) return text.problems.noServer
  if (error instanceof RequestError) return text.problems.byCode[error.code] ?? error.message
  return error instanceof Error ? error.message : String(error)
}
