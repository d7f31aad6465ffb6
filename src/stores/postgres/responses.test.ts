import { inject } from 'vitest'
import { openPostgresStore } from '../../../test/support/stores.ts'
import { describeResponses } from '../responses.contract.ts'

describeResponses('Postgres', openPostgresStore(inject('postgresUrl')))
