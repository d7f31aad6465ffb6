import { openSqliteStore } from '../../../test/support/stores.ts'
import { describeIndex } from '../index.contract.ts'

describeIndex('SQLite', openSqliteStore)
