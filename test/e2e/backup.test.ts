import { randomBytes } from 'node:crypto'
import { existsSync, rmSync, unlinkSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { type Client, createClient } from '../../src/client/index.ts'
import { type Config, readConfig } from '../../src/config.ts'
import { makeBackup, restoreBackup } from '../../src/server/backup.ts'
import { type RunningServer, startServer } from '../../src/server/server.ts'
import { stateIn } from '../support/state.ts'
import { onPostgres } from '../support/stores.ts'

let folder: string
let databases: string[]
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'waymark-backup-'))
  await mkdir(join(folder, 'project'))
  databases = []
})
afterEach(async () => {
  for (const name of databases) await onPostgres(inject('postgresUrl'), `drop database ${name} with (force)`)
  await rm(folder, { recursive: true, force: true })
})

async function newDatabase(): Promise<string> {
  const name = `test_${randomBytes(6).toString('hex')}`
  await onPostgres(inject('postgresUrl'), `create database ${name}`)
  databases.push(name)
  return `${inject('postgresUrl')}/${name}`
}

function configFor(dataDir: string, databaseUrl: string | null): Config {
  return {
    ...readConfig({ project: join(folder, 'project') }, { ...stateIn(folder), PATH: process.env.PATH }),
    dataDir: join(folder, dataDir),
    databaseUrl,
    workspaceId: 'Backed.Up',
    port: 0,
    logLevel: 'silent',
    embedder: 'none',
    gcMinutes: 1000,
  }
}

async function serving<T>(
  config: Config,
  work: (client: Client, server: RunningServer) => Promise<T>,
): Promise<T> {
  const server = await startServer(config)
  try {
    return await work(createClient(server), server)
  } finally {
    await server.close()
  }
}

async function framesOf(client: Client, id: string, cursor?: string) {
  const frames: string[] = []
  const cuts: number[] = []
  let last = ''
  for await (const items of client.stream(id, { follow: false, ...(cursor ? { cursor } : {}) })) {
    for (const item of items) {
      if (item.type === 'frame') frames.push(item.text)
      if (item.type === 'cut') cuts.push(item.after)
      if (item.cursor !== null) last = item.cursor
    }
  }
  return { frames, cuts, last }
}

async function say(client: Client, id: string, content: string): Promise<void> {
  await client.sendMessage(id, { content })
  await expect.poll(() => client.queue(id), { timeout: 30_000 }).toMatchObject({ active: null, items: [] })
}

describe.each(['sqlite', 'postgres'] as const)('a backup on %s', (engine) => {
  const database = async () => (engine === 'sqlite' ? null : await newDatabase())

  it('[L4] [L9] is made while the server runs, restores byte for byte, and can be continued', {
    timeout: 120_000,
  }, async () => {
    const config = configFor('data', await database())
    const backup = join(folder, 'backup')
    const before = await serving(config, async (client) => {
      const { id } = await client.createConversation({ title: 'Kept' })
      await say(client, id, '!write_to_file {"path":"a.txt","content":"one\\n"}')
      await say(client, id, 'ü'.repeat(600_000))
      const other = await client.createConversation()
      // The agent runs during the backup.
      await client.sendMessage(other.id, { content: '!wait 20\n!say 200' })
      const { verified } = await makeBackup(config, backup, () => {})
      expect([verified.flaws, verified.damaged]).toEqual([[], []])
      const { frames } = await framesOf(client, id)
      await say(client, id, 'said after the backup')
      const later = await framesOf(client, id)
      return { id, other: other.id, frames, cursor: later.last, checkpoints: await client.checkpoints(id) }
    })
    const restored = configFor('restored', await database())
    const { verified, note } = await restoreBackup(restored, backup, () => {})
    expect([verified.flaws, verified.damaged]).toEqual([[], []])
    expect(note.engine).toBe(engine)
    await serving(restored, async (client) => {
      const { frames } = await framesOf(client, before.id)
      expect(frames.slice(0, before.frames.length)).toEqual(before.frames)
      // A reader that was ahead of the backup gets a cut.
      const resumed = await framesOf(client, before.id, before.cursor)
      expect(resumed.cuts).toEqual([before.frames.length])
      expect(resumed.frames).toEqual(frames.slice(before.frames.length))
      await say(client, before.id, 'said after the restore')
      await say(client, before.other, 'and here')
      const { items } = await client.checkpoints(before.id)
      const target = items.find((item) => item.label.startsWith('Before user message: !write'))
      expect(
        (await client.restore(before.id, { checkpoint_id: target?.checkpoint_id ?? '' })).deleted,
      ).toEqual(['a.txt'])
    })
  })
})

describe('a backup', () => {
  it('refuses a folder that is not empty, and a restore over an existing ledger', async () => {
    const config = configFor('data', null)
    await serving(config, async (client) => void (await client.createConversation()))
    await makeBackup(config, join(folder, 'backup'), () => {})
    await expect(makeBackup(config, join(folder, 'backup'), () => {})).rejects.toThrow(/not empty/)
    await expect(restoreBackup(config, join(folder, 'backup'), () => {})).rejects.toThrow(
      /already has a ledger/,
    )
    await expect(restoreBackup(configFor('other', null), folder, () => {})).rejects.toThrow(/is not a backup/)
    expect((await readdir(folder)).filter((name) => name.includes('making'))).toEqual([])
  })

  it('[D3] blocks collections while it copies', async () => {
    const config = configFor('data', null)
    await serving(config, async (client) => {
      const { id } = await client.createConversation()
      await say(client, id, 'ü'.repeat(600_000))
      await client.deleteConversation(id)
      let refused: unknown = null
      await makeBackup(config, join(folder, 'backup'), () => {
        refused ??= client.collect({ now: true }).catch((error: unknown) => error)
      })
      expect(await refused).toMatchObject({ code: 'workspace_busy' })
      await client.collect({ now: true })
    })
  })

  it('reports missing blobs', async () => {
    const config = configFor('data', null)
    await serving(config, async (client) => {
      const { id } = await client.createConversation()
      await say(client, id, 'ü'.repeat(600_000))
    })
    const blobs = join(config.dataDir, 'blobs')
    for (const path of await readdir(blobs, { recursive: true })) {
      if (path.length > 60) unlinkSync(join(blobs, path))
    }
    const { verified } = await makeBackup(config, join(folder, 'backup'), () => {})
    expect(verified.damaged).not.toEqual([])
    rmSync(join(folder, 'backup'), { recursive: true })
    expect(existsSync(join(folder, 'backup'))).toBe(false)
  })
})
