import type { AgentStates } from '../core/agent-states.ts'
import { accepted, stored } from './answers.ts'
import type { Engine } from './engine.ts'
import { writeOne } from './write-one.ts'

export function createAgentStates(engine: Engine): AgentStates {
  return {
    async put(state, fence) {
      accepted(await stored(writeOne(engine, 'putAgentState', { state, fence })))
    },
    async putWrites(place, writes, fence) {
      accepted(await stored(writeOne(engine, 'putAgentWrites', { place, writes, fence })))
    },
    get: (place) => stored(engine.read('readAgentState', place), 'read'),
    list: (query) => stored(engine.read('listAgentStates', query), 'read'),
    async deleteThread(threadId) {
      await stored(writeOne(engine, 'deleteAgentThread', threadId))
    },
    past: async (query) => accepted(await stored(engine.read('runPast', query), 'read')),
  }
}
