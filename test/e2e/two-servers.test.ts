import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { startTestServer } from '../support/server.ts'

const name = `test_${randomBytes(6).toString('hex')}`
const databaseUrl = `${inject('postgresUrl')}/${name}`

beforeAll(() => onServer(`create database ${name}`))
afterAll(() => onServer(`drop database ${name} with (force)`))

it('[L7] two servers on one Postgres: each keeps its token, and a reader of one sees what the other writes', async () => {
  const one = await startTestServer({ databaseUrl })
  const two = await startTestServer({ databaseUrl })
  const { id } = await one.client.createConversation({ title: 'shared' })
  const stream = two.client.stream(id)
  expect((await stream.next()).value?.[0]).toMatchObject({ frame: { title: 'shared' } })
  await one.client.changeConversation(id, { title: 'seen at once' })
  expect((await stream.next()).value?.[0]).toMatchObject({ frame: { title: 'seen at once' } })
  expect((await one.client.conversation(id)).title).toBe('seen at once')
  await two.close()
  await one.close()
})

async function onServer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: `${inject('postgresUrl')}/postgres` })
  await client.connect()
  await client.query(statement)
  await client.end()
}
