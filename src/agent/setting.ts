import type { Turn } from '../core/agent.ts'
import type { Conversation } from '../protocol/api/conversations.ts'
import type { Provider } from './provider/provider.ts'

/** The contexts and the model that a conversation has selected. */
export interface Contexts {
  agent: string | null
  conversation: string | null
  model: string | null
}

export interface AgentSetting {
  provider: Provider
  /** The base URL of requests; null for the provider's own. */
  providerUrl: string | null
  /** True if the provider stores responses, so that requests can continue from them. */
  keepsResponses(): boolean
  /** Called when the provider has refused or ignored a chain. */
  chainRefused(): void
  model: string
  instructions: string | null
  temperature: number | null
  /** The index to search and to add to; null for the workspace's own. */
  index: string | null
}

/** A turn with its conversation's settings. */
export type SetTurn = Turn & { setting: AgentSetting; memory: Conversation['memory'] }
