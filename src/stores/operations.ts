import type { Clock } from '../core/clock.ts'
import type { Operations } from '../core/operations.ts'
import type { Database } from './database.ts'

export function createOperations(database: Database, clock: Clock): Operations {
  return {
    list: (query) => database.read('listOperations', query),
    find: (tenant, no) => database.read('findOperation', { tenant, no }),
    next: (tenant, conversationId, what) => database.read('nextOperation', { tenant, conversationId, what }),
    mark: (tenant, undoing) =>
      database.write('markOperation', { tenant, at: clock.now(), undoing, left: null }),
  }
}
