import type { AgentStates } from '../core/agent-states.ts'
import type { Ledger } from '../core/ledger.ts'
import type { Log } from '../core/log.ts'
import type { Queue } from '../core/queue.ts'
import type { WorkSessions } from '../core/work-sessions.ts'
import type { RecordDependencies } from './record-exchange.ts'

export interface ObservedDependencies extends RecordDependencies {
  ledger: Pick<Ledger, 'create' | 'conversation'>
  queue: Pick<Queue, 'enqueue' | 'signals'>
  states: AgentStates
  sessions: Pick<WorkSessions, 'start' | 'capture' | 'writeRepository'>
  keep(text: string): Promise<string>
  workspaceId: string
  /** This process's run worker: only it sees the agent's requests. */
  worker: string
  leaseMs: number
  log: Pick<Log, 'error'>
}
