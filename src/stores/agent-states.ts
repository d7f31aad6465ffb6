import type { AgentStates } from '../core/agent-states.ts'
import type { Database } from './database.ts'

/** Writes are stored in call order; a step's writes and the resulting state are one commit. */
export function createAgentStates({ database }: { database: Database }): AgentStates {
  return {
    async put(state, fence) {
      await database.write('putAgentState', { state, fence })
    },
    async putWrites(place, written, fence) {
      const command = { place, writes: written, fence }
      await database.write('putAgentWrites', command)
    },
    async putEntries(chunk, fence) {
      await database.write('putEntries', { chunk, fence })
    },
    entries: (id) => database.read('readEntries', id),
    get: (place) => database.read('readAgentState', place),
    list: (query) => database.read('listAgentStates', query),
    history: (place, channels) => database.read('stateHistory', { place, channels }),
    async deleteThread(threadId) {
      await database.write('deleteAgentThread', threadId)
    },
    past: async (query) => await database.read('runPast', query),
  }
}
