import { openSqliteStore } from '../../../test/support/stores.ts'
import { describeWork } from '../work.contract.ts'

describeWork('SQLite', openSqliteStore)
