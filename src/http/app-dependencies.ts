import type { HttpBindings } from '@hono/node-server'
import type { Agent } from '../core/agent.ts'
import type { AttachmentStore } from '../core/attachments.ts'
import type { Clock } from '../core/clock.ts'
import type { Collecting, CollectionStore } from '../core/collection.ts'
import type { Deletions } from '../core/deletions.ts'
import type { Forks } from '../core/forks.ts'
import type { Ledger } from '../core/ledger.ts'
import type { Log } from '../core/log.ts'
import type { Rules } from '../core/questions.ts'
import type { Queue } from '../core/queue.ts'
import type { Responses } from '../core/responses.ts'
import type { Token, TokenStore } from '../core/tokens.ts'
import type { Exports, Imports } from '../core/transfer.ts'
import type { WorkSessions } from '../core/work-sessions.ts'
import type { About } from '../protocol/api/service.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { HttpMetrics } from './metrics.ts'
import type { WebFiles } from './web-files.ts'

export interface AppEnv {
  Variables: { caller: Token }
  Bindings: HttpBindings
}

export interface AppDependencies {
  ledger: Ledger
  queue: Queue
  sessions: WorkSessions
  forks: Forks
  deletions: Deletions
  attachments: AttachmentStore
  /** Whole outcomes of tool calls. */
  results: {
    find(tenant: string, conversationId: ConversationId, toolCallId: string): Promise<string | null>
  }
  rules: Pick<Rules, 'list' | 'remove'>
  preview: Agent['preview']
  responses: Pick<Responses, 'list' | 'get' | 'memories'>
  collector: Collecting
  collection: Pick<CollectionStore, 'audit'>
  exports: Exports
  imports: Imports
  /** The name of a new file, in a folder of ours. */
  scratchFile(): string
  tokens: TokenStore
  clock: Clock
  log: Log
  metrics: HttpMetrics
  /** The workspace that new conversations are about, unless they name another. */
  workspaceId: string
  /** No other process serves this store. */
  isOnlyServer: boolean
  about: Omit<About, 'scopes'>
  /** The page; null when it has not been built. */
  web: WebFiles | null
  /** Host names we answer for besides the loopback ones. */
  allowedHosts: readonly string[]
  /** Codes that each open one browser session; a code is forgotten when it is used. */
  loginCodes: Set<string>
  /** What those sessions are opened with. */
  localToken: string
  /** Aborts when the server stops: open streams end then. */
  stopping: AbortSignal
}
