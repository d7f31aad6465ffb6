import type { IncomingMessage, ServerResponse } from 'node:http'
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
import type { SessionImports } from '../core/session-imports.ts'
import type { StatsStore } from '../core/stats.ts'
import type { Token, TokenStore } from '../core/tokens.ts'
import type { Exports, Imports } from '../core/transfer.ts'
import type { UndoRedo } from '../core/undo-redo.ts'
import type { WorkSessions } from '../core/work-sessions.ts'
import type { About, AgentList, ModelList, ProjectList } from '../protocol/api/service.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { HttpMetrics } from './metrics.ts'
import type { WebFiles } from './web-files.ts'

export interface AppEnv {
  Variables: { caller: Token }
  Bindings: HttpBindings
}

/** The recording gateway, and the terminals of the agents that use it. */
export interface GatewayDependencies {
  /** Answers everything below `/gateway/`; it checks the key itself. */
  serve(request: IncomingMessage, response: ServerResponse): Promise<void>
  /** Model servers that every terminal may use, as origins. */
  origins: readonly string[]
  keep(terminal: {
    tenant: string
    id: string
    key: string
    agent: string
    upstreams: Record<string, string>
  }): { conversations: string[] }
  end(tenant: string, id: string): Promise<{ conversations: string[] }>
}

export interface AppDependencies {
  ledger: Ledger
  queue: Queue
  sessions: WorkSessions
  forks: Forks
  deletions: Deletions
  undoRedo: UndoRedo
  stats: StatsStore
  attachments: AttachmentStore
  /** Full outcomes of tool calls. */
  results: {
    find(tenant: string, conversationId: ConversationId, toolCallId: string): Promise<string | null>
  }
  rules: Pick<Rules, 'list' | 'remove'>
  preview: Agent['preview']
  responses: Pick<Responses, 'list' | 'get' | 'usage' | 'memories'>
  collector: Collecting
  collection: Pick<CollectionStore, 'audit'>
  gateway: GatewayDependencies
  exports: Exports
  imports: Imports
  sessionImports: SessionImports
  /** Returns a path for a new temporary file in the data folder. */
  scratchFile(): string
  tokens: TokenStore
  clock: Clock
  log: Log
  metrics: HttpMetrics
  /** Default workspace of new conversations. */
  workspaceId: string
  /** No other process serves this store. */
  isOnlyServer: boolean
  /** The server as it is now. */
  about(): Omit<About, 'scopes'>
  /** The models that conversations can choose from. */
  listModels(): Promise<ModelList['items']>
  listAgents(): AgentList['items']
  /** All projects of this process. */
  projects: {
    list(): ProjectList['items']
    /** A link that signs in one browser, once; null if the project is not served here. */
    link(id: string): string | null
  }
  /** The page; null when it has not been built. */
  web: WebFiles | null
  /** Host names that the server answers for, in addition to loopback. */
  allowedHosts: readonly string[]
  /** Single-use codes; each opens one browser session. */
  loginCodes: Set<string>
  /** The token that opens those sessions. */
  localToken: string
  /** Aborts when the server stops, which ends open streams. */
  stopping: AbortSignal
}
