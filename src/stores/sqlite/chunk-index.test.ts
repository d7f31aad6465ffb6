import { openSqliteStore } from '../../../test/support/stores.ts'
import { describeIndex } from '../chunk-index.contract.ts'

describeIndex('SQLite', openSqliteStore)
