import { openSqliteStore } from '../../../test/support/stores.ts'
import { describeLines } from '../lines.contract.ts'

describeLines('SQLite', openSqliteStore)
