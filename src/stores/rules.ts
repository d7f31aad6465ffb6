import type { Clock } from '../core/clock.ts'
import type { Rules } from '../core/questions.ts'
import type { Database } from './database.ts'

export function createRules(database: Database, clock: Clock): Rules {
  return {
    find: (call) => database.read('findRule', call),
    list: (tenant) => database.read('listRules', tenant),
    remove: async (tenant, id, by) => {
      const { isRemoved } = await database.write('removeRule', { tenant, id, by, now: clock.now() })
      return isRemoved
    },
  }
}
