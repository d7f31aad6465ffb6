import { inject } from 'vitest'
import { openPostgresStore } from '../../../test/support/stores.ts'
import { describeQueue } from '../queue.contract.ts'

describeQueue('Postgres', openPostgresStore(inject('postgresUrl')))
