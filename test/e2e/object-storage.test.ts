import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { createClient } from '../../src/client/index.ts'
import { type Config, readConfig } from '../../src/config.ts'
import { makeBackup, restoreBackup } from '../../src/server/backup.ts'
import { startServer } from '../../src/server/server.ts'
import { framesOf, ofKind } from '../support/runs.ts'
import { newBucket } from '../support/s3-server.ts'
import { stateIn } from '../support/state.ts'
import { onPostgres } from '../support/stores.ts'

const s3 = inject('s3')
const LARGE = 'ü'.repeat(900_000)

/** Processes that share Postgres and a bucket, but no folder. */
describe.skipIf('missing' in s3)(
  `Postgres and S3 ${'missing' in s3 ? `(skipped: ${s3.missing})` : ''}`,
  () => {
    let folder: string
    let shared: Partial<Config>
    const databases: string[] = []
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'waymark-s3-e2e-'))
      shared = { databaseUrl: await newDatabase(), objectStorage: await newBucket(s3) }
    })
    afterAll(async () => {
      for (const name of databases) {
        await onPostgres(inject('postgresUrl'), `drop database ${name} with (force)`)
      }
      await rm(folder, { recursive: true, force: true })
    })

    async function newDatabase(): Promise<string> {
      const name = `test_${randomBytes(6).toString('hex')}`
      await onPostgres(inject('postgresUrl'), `create database ${name}`)
      databases.push(name)
      return `${inject('postgresUrl')}/${name}`
    }

    async function configFor(name: string, more: Partial<Config> = shared): Promise<Config> {
      const project = join(folder, `${name}-project`)
      await mkdir(project, { recursive: true })
      return {
        ...readConfig({ project }, { ...stateIn(join(folder, name)), PATH: process.env.PATH }),
        dataDir: join(folder, `${name}-data`),
        workspaceId: 'Shared.Project',
        hasWorkspaceId: true,
        port: 0,
        logLevel: 'silent',
        embedder: 'none',
        gcMinutes: 1000,
        ...more,
      }
    }

    async function serving(config: Config) {
      const server = await startServer(config)
      return { server, client: createClient(server) }
    }

    it('[L4] [W4] lets a second process read the frames and restore the files of the first', {
      timeout: 120_000,
    }, async () => {
      const configs = [await configFor('a'), await configFor('b')] as const
      await writeFile(join(configs[0].project, 'one.txt'), 'from a')
      const a = await serving(configs[0])
      const { id } = await a.client.createConversation()
      await a.client.sendMessage(id, {
        content: `!write_to_file ${JSON.stringify({ path: 'one.txt', content: 'changed' })}`,
      })
      await expect
        .poll(async () => ofKind(await framesOf(a.client, id), 'final').length, { timeout: 30_000 })
        .toBe(1)
      // Large enough to become a blob.
      await a.client.sendMessage(id, { content: LARGE })
      await expect
        .poll(async () => ofKind(await framesOf(a.client, id), 'final').length, { timeout: 30_000 })
        .toBe(2)
      const seen = await framesOf(a.client, id)
      const [first] = ofKind(seen, 'message.user')
      await a.server.close()
      expect(existsSync(join(configs[0].dataDir, 'blobs', 'ab'))).toBe(false)

      const b = await serving(configs[1])
      expect(await framesOf(b.client, id)).toEqual(seen)
      await writeFile(join(configs[1].project, 'two.txt'), 'only here')
      const { restored } = await b.client.restore(id, { checkpoint_id: first?.checkpoint_id ?? '' })
      expect(restored).toEqual(['one.txt'])
      expect(readFileSync(join(configs[1].project, 'one.txt'), 'utf8')).toBe('from a')
      await b.server.close()
    })

    it('makes a complete backup that restores into another bucket', { timeout: 120_000 }, async () => {
      const config = await configFor('b')
      const backup = join(folder, 'backup')
      const { verified } = await makeBackup(config, backup, () => {})
      expect(verified).toMatchObject({ flaws: [], damaged: [] })
      await expect(
        restoreBackup(
          await configFor('c', { ...shared, databaseUrl: await newDatabase() }),
          backup,
          () => {},
        ),
      ).rejects.toThrow(/already in use/)

      const other = { databaseUrl: await newDatabase(), objectStorage: await newBucket(s3) }
      const target = await configFor('d', other)
      const done = await restoreBackup(target, backup, () => {})
      expect(done.verified).toMatchObject({ flaws: [], damaged: [] })
      const before = await serving(await configFor('b'))
      const { items } = await before.client.listConversations()
      const id = items[0]?.id ?? ''
      const frames = await framesOf(before.client, id)
      await before.server.close()
      const after = await serving(target)
      expect((await framesOf(after.client, id)).slice(0, frames.length)).toEqual(frames)
      await after.server.close()
    })
  },
)
