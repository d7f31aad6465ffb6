import { openSqliteStore } from '../../../test/support/stores.ts'
import { describeResponses } from '../responses.contract.ts'

describeResponses('SQLite', openSqliteStore)
