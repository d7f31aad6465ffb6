import { openSqliteStore } from '../../../test/support/stores.ts'
import { describeLedger } from '../ledger.contract.ts'

describeLedger('SQLite', openSqliteStore)
