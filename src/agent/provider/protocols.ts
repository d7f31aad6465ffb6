import { anthropic } from './anthropic.ts'
import { chatCompletions } from './chat-completions.ts'
import type { Protocol, ProtocolName } from './protocol.ts'
import { responses } from './responses.ts'

/** Every protocol. A new one is its own file and a line here. */
export const protocols: Record<ProtocolName, Protocol> = {
  responses,
  'chat-completions': chatCompletions,
  anthropic,
}
