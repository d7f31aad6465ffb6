import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { startTestServer } from '../support/server.ts'
import { onPostgres } from '../support/stores.ts'

const name = `test_${randomBytes(6).toString('hex')}`
const databaseUrl = `${inject('postgresUrl')}/${name}`

beforeAll(() => onPostgres(inject('postgresUrl'), `create database ${name}`))
afterAll(() => onPostgres(inject('postgresUrl'), `drop database ${name} with (force)`))

it('[L7] streams events written by another server on the same Postgres; each server keeps its own token', async () => {
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
