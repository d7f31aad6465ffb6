import type { Rules } from '../core/questions.ts'
import { stored } from './answers.ts'
import type { Engine } from './engine.ts'
import { writeOne } from './write-one.ts'

export function createRules(engine: Engine): Rules {
  return {
    find: (call) => stored(engine.read('findRule', call), 'read'),
    list: (tenant) => stored(engine.read('listRules', tenant), 'read'),
    remove: async (tenant, id) =>
      (await stored(writeOne(engine, 'removeRule', { tenant, id }, null))).isRemoved,
  }
}
