import { openSqliteStore } from '../../../test/support/stores.ts'
import { describeQueue } from '../queue.contract.ts'

describeQueue('SQLite', openSqliteStore)
