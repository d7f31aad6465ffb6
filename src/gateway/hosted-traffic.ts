import type { Turn } from '../core/agent.ts'
import { newSecret } from '../core/secret.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { Exchange } from './exchange.ts'
import type { GatewayAccess } from './gateway.ts'
import { createRecording, type RecordDependencies } from './record-exchange.ts'

/** The model traffic of hosted agents: each program gets a key, and its requests are recorded with the message it answers. */
export interface HostedTraffic {
  /** Opens a key for the program of a conversation. */
  open(
    conversationId: ConversationId,
    upstreams: Readonly<Record<string, string>>,
  ): { key: string; close(): void }
  /**
   * Records requests with this turn until it ends; the returned function waits for those under way. `saved` resolves when the
   * changes of the calls with these ids are saved.
   */
  during(turn: Turn, saved: (callIds: readonly string[]) => Promise<unknown>): () => Promise<void>
  access(key: string): GatewayAccess | null
}

/** How long the end of an answer waits for records of its requests. */
const END_MS = 2000

export function createHostedTraffic(deps: RecordDependencies): HostedTraffic {
  const programs = new Map<string, GatewayAccess>()
  const turns = new Map<string, (exchange: Exchange) => Promise<void>>()

  return {
    open(conversationId, upstreams) {
      const key = newSecret()
      // Between two messages, an agent's requests belong to none.
      programs.set(key, { upstreams, observe: (exchange) => turns.get(conversationId)?.(exchange) })
      return { key, close: () => void programs.delete(key) }
    },
    during(turn, saved) {
      const recording = createRecording(deps, turn)
      /** Calls whose outcomes an earlier request had: histories repeat them. */
      const reported = new Set<string>()
      async function observe(exchange: Exchange): Promise<void> {
        const request = await recording.add(exchange)
        const outcomes = (request?.items ?? []).flatMap((item) => (item.type === 'output' ? item.callId : []))
        const added = outcomes.filter((id) => !reported.has(id))
        for (const id of added) reported.add(id)
        await saved(added)
      }
      turns.set(turn.conversationId, observe)
      return async () => {
        if (turns.get(turn.conversationId) === observe) turns.delete(turn.conversationId)
        const late = new Promise((resolve) => setTimeout(resolve, END_MS).unref())
        await Promise.race([recording.settled(), late])
      }
    },
    access: (key) => programs.get(key) ?? null,
  }
}
