import { inject } from 'vitest'
import { openPostgresStore } from '../../../test/support/stores.ts'
import { describeIndex } from '../chunk-index.contract.ts'

describeIndex('Postgres', openPostgresStore(inject('postgresUrl')))
