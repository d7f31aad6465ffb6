import { inject } from 'vitest'
import { openPostgresStore } from '../../../test/support/stores.ts'
import { describeLedger } from '../ledger.contract.ts'

describeLedger('Postgres', openPostgresStore(inject('postgresUrl')))
