import { inject } from 'vitest'
import { openPostgresStore } from '../../../test/support/stores.ts'
import { describeWork } from '../work.contract.ts'

describeWork('Postgres', openPostgresStore(inject('postgresUrl')))
