import type { AgentStates, Fence } from '../core/agent-states.ts'
import { accepted, stored } from './answers.ts'
import type { Engine } from './engine.ts'
import type { GroupedWrites } from './grouped-writes.ts'

/** Written in the order of the calls: a step's writes, and the state they lead to, are one commit. */
export function createAgentStates(deps: { engine: Engine; writes: GroupedWrites }): AgentStates {
  const { engine, writes } = deps
  return {
    async put(state, fence) {
      accepted(await stored(writes.write('putAgentState', { state, fence }, null, locksOf(fence))))
    },
    async putWrites(place, written, fence) {
      const command = { place, writes: written, fence }
      accepted(await stored(writes.write('putAgentWrites', command, null, locksOf(fence))))
    },
    async putEntries(chunk, fence) {
      accepted(await stored(writes.write('putEntries', { chunk, fence }, null, locksOf(fence))))
    },
    entries: (id) => stored(engine.read('readEntries', id), 'read'),
    get: (place) => stored(engine.read('readAgentState', place), 'read'),
    list: (query) => stored(engine.read('listAgentStates', query), 'read'),
    history: (place, channels) => stored(engine.read('stateHistory', { place, channels }), 'read'),
    async deleteThread(threadId) {
      await stored(writes.write('deleteAgentThread', threadId, null))
    },
    past: async (query) => accepted(await stored(engine.read('runPast', query), 'read')),
  }
}

function locksOf(fence: Fence | null) {
  return { locks: fence?.conversationId ?? null }
}
