import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { newConversation, parsed, readAll, TENANT, userMessage } from '../../../test/support/frames.ts'
import type { PageQuery } from '../../core/ledger.ts'
import type { Cursor } from '../../protocol/cursor.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import { systemClock } from '../../server/system-clock.ts'
import { verifyLedger } from '../../workers/verify.ts'
import { createFolderBlobs } from '../blobs/folder.ts'
import { createDatabase } from '../database.ts'
import { createLedger } from '../ledger.ts'
import { createUpkeep } from '../upkeep.ts'
import { openPostgres } from './open.ts'

describe('a lost Postgres connection', () => {
  const name = `test_${randomBytes(6).toString('hex')}`
  const url = `${inject('postgresUrl')}/${name}`
  let admin: pg.Client
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waymark-test-'))
    admin = new pg.Client({ connectionString: `${inject('postgresUrl')}/postgres` })
    await admin.connect()
    await admin.query(`create database ${name}`)
  })
  afterAll(async () => {
    await admin.query(`drop database ${name} with (force)`)
    await admin.end()
    await rm(folder, { recursive: true, force: true })
  })

  const openLedger = async (databaseUrl: string) => {
    const database = createDatabase({ engine: await openPostgres(databaseUrl) })
    const blobs = createFolderBlobs(join(folder, 'blobs'))
    return {
      ledger: createLedger({ database, blobs, clock: systemClock }),
      upkeep: createUpkeep({ database, blobs }),
    }
  }
  const say = (text: string) => ({ tenant: TENANT, run: null, frames: [userMessage(text)] })

  it('[L3] rejects the pending appends, while the process and its followers continue', async () => {
    const { ledger, upkeep } = await openLedger(url)
    const id = await newConversation(ledger)
    const stop = new AbortController()
    const seen: string[] = []
    // A read may fail too; like any client, the reader then resumes from its cursor.
    let cursor: Cursor | null = null
    const following = (async () => {
      while (!stop.signal.aborted) {
        try {
          const query: PageQuery = { tenant: TENANT, conversationId: id, cursor, limit: 50 }
          for await (const page of ledger.follow(query, stop.signal)) {
            seen.push(...page.frames)
            cursor = page.last
          }
        } catch (error) {
          if (!(error instanceof WaymarkError)) throw error
        }
      }
    })()
    let stored = 0
    for (let round = 0; round < 10; round++) {
      const settled = Promise.allSettled(
        Array.from({ length: 20 }, (_, index) =>
          ledger.append({ conversationId: id, ...say(`${round} ${index}`) }),
        ),
      )
      await admin.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name])
      const outcomes = await settled
      stored += outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value.ok).length
    }
    await ledger.append({ conversationId: id, ...say('at last') })
    // A write whose answer was lost may still be stored; a confirmed write always is.
    const all = await readAll(ledger, id)
    expect(all.length).toBeGreaterThanOrEqual(stored + 2)
    const texts = parsed(all).flatMap((frame) => ('content' in frame ? [frame.content] : []))
    expect(new Set(texts).size).toBe(texts.length)
    await expect.poll(() => seen, { timeout: 10_000 }).toEqual(all)
    expect((await verifyLedger(upkeep)).flaws).toEqual([])
    stop.abort()
    await following
    await ledger.close()
  })

  it('[L2] stores nothing twice when the connection is lost during a commit', async () => {
    const proxy = await proxyThatLosesOneCommit(url)
    const { ledger } = await openLedger(proxy.url)
    const ids = [await newConversation(ledger), await newConversation(ledger)]
    proxy.arm()
    const outcomes = await Promise.allSettled(
      ids.map((id) => ledger.append({ conversationId: id, ...say('once') })),
    )
    expect(proxy.hasLost()).toBe(true)
    expect(outcomes.map((outcome) => outcome.status)).toEqual(['rejected', 'rejected'])
    for (const id of ids) expect(await readAll(ledger, id)).toHaveLength(2)
    await ledger.close()
    proxy.server.close()
  })
})

/** A proxy that forwards everything, except that it drops the connection instead of one commit's answer. */
async function proxyThatLosesOneCommit(databaseUrl: string) {
  const target = new URL(databaseUrl)
  const { port, hostname } = target
  let isArmed = false
  let hasLost = false
  const server: Server = createServer((near) => {
    const far = connect(Number(port), hostname)
    for (const socket of [near, far]) socket.on('error', () => {})
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
    far.on('data', (data) => near.write(data))
    near.on('data', (data) => {
      far.write(data)
      if (!isArmed || !data.toString('latin1').includes('commit\0')) return
      isArmed = false
      hasLost = true
      far.removeAllListeners('data')
      // Wait for the answer, so that the commit has happened before the connection drops.
      far.once('data', () => near.destroy())
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  target.port = String((server.address() as AddressInfo).port)
  return {
    url: target.href,
    server,
    hasLost: () => hasLost,
    arm() {
      isArmed = true
    },
  }
}
