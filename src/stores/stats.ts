import { type StatsStore, statsOf } from '../core/stats.ts'
import type { Database } from './database.ts'

export function createStats(database: Database): StatsStore {
  return {
    async read(query) {
      return statsOf(await database.read('readStats', query), query)
    },
  }
}
