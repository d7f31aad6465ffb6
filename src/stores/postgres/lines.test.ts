import { inject } from 'vitest'
import { openPostgresStore } from '../../../test/support/stores.ts'
import { describeLines } from '../lines.contract.ts'

describeLines('Postgres', openPostgresStore(inject('postgresUrl')))
