import type { Agent } from '../core/agent.ts'
import type { Ledger } from '../core/ledger.ts'
import type { HostedAgent } from './hosted/hosted-agent.ts'

/** Answers each message: Waymark's own agent, the hosted one that the conversation has chosen, or one in its own terminal. */
export function createAgents(deps: {
  ledger: Pick<Ledger, 'conversation'>
  own: Agent
  /** Loaded on first use: most servers host no agent. */
  hosted(): Promise<Pick<HostedAgent, 'run'>>
  /** Agents in their own terminals, which are only watched. */
  observed: Pick<Agent, 'run'>
}): Agent {
  const { ledger, own, hosted, observed } = deps
  const isHosted = async (tenant: string, id: Parameters<Ledger['conversation']>[1]) =>
    (await ledger.conversation(tenant, id)).agent !== null
  return {
    async run(turn) {
      if (turn.message.extras.observed !== undefined) return await observed.run(turn)
      if (!(await isHosted(turn.tenant, turn.conversationId))) return await own.run(turn)
      return await (await hosted()).run(turn)
    },
    async preview(where) {
      if (!(await isHosted(where.tenant, where.conversationId))) return await own.preview(where)
      // A hosted agent assembles its requests itself.
      return { chain: 'not_kept', parts: [], held: { parts: 0, tokens: 0 } }
    },
  }
}
