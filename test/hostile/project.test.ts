import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Client, createClient } from '../../src/client/index.ts'
import { type Config, ConfigError, readConfig } from '../../src/config.ts'
import { examineWorkspace, openStore, startServer } from '../../src/main.ts'
import { untrustedPart } from '../../src/trust.ts'
import { rounds } from '../support/soak.ts'
import { everythingIn } from '../support/workspace.ts'
import { createCanary } from './git-canaries.ts'
import { plantProject, seeded } from './hostile-project.ts'

const SECRET = 'OUTSIDE-SECRET'

describe('a hostile project', () => {
  it(
    '[T1] [T2] [T3] starts nothing, reads and writes nothing outside, and loses nothing of ours',
    async () => {
      const seed = Number(process.env.WAYMARK_SEED ?? Date.now() % 1_000_000)
      const total = rounds(30, 2000)
      for (let i = 0; i < total; i++) {
        const planted = await round(seed + i)
        if (i % 100 === 99) console.log(`${i + 1} of ${total}; last: ${planted.join(', ')}`)
      }
    },
    rounds(240_000, 7_200_000),
  )
})

/** What a person does in a project that they have just cloned over, pulled or unpacked. */
async function round(seed: number): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'waymark-hostile-'))
  const [project, outside, home] = ['project', 'outside', 'home'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ]
  for (const path of [project, outside, home]) mkdirSync(path)
  writeFileSync(join(outside, 'secret.txt'), SECRET)
  writeFileSync(join(project, 'ours.txt'), 'ours\n')
  const canary = createCanary(folder)
  const random = seeded(seed)
  const environment = {
    HOME: home,
    PATH: `.:${join(project, 'bin')}:${join(project, 'node_modules/.bin')}:${process.env.PATH}`,
  }
  const label = `seed ${seed}`
  try {
    const before = await talk(settings(project, environment), [
      '!write_to_file {"path":"ours.txt","content":"ours, changed\\n"}',
    ])
    const planted = plantProject({ project, outside, canary, random })
    const untouched = everythingIn(outside, [])
    const config = await trusted(project, environment)
    const after = await talk(config, hostileMessages(outside), before.id)
    const said = `${label}: ${planted.join(', ')}`
    expect(canary.marks(), said).toEqual([])
    expect(everythingIn(outside, []), said).toEqual(untouched)
    expect(after.frames.join('\n').includes(SECRET), said).toBe(false)
    expect(after.frames.slice(0, before.frames.length), said).toEqual(before.frames)
    expect(after.problems, said).toEqual([])
    return planted
  } catch (error) {
    throw new Error(label, { cause: error })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function settings(project: string, environment: Record<string, string>): Config {
  return {
    ...readConfig({ project }, environment),
    port: 0,
    logLevel: 'silent',
    embedder: 'none',
    gcMinutes: 1000,
  }
}

/** As `waymark serve` does it: what a project brings is refused, and the person looks at it and removes it. */
async function trusted(project: string, environment: Record<string, string>): Promise<Config> {
  try {
    const config = settings(project, environment)
    if ((await untrustedPart(config)) === null) return config
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
  }
  rmSync(join(project, 'waymark.config.json'), { force: true })
  return settings(project, environment)
}

function hostileMessages(outside: string): string[] {
  const calls = [
    ['read_file', { path: 'to-secret' }],
    ['read_file', { path: 'to-folder/secret.txt' }],
    ['write_to_file', { path: 'to-folder/new.txt', content: 'x' }],
    ['write_to_file', { path: `${outside}/new.txt`, content: 'x' }],
    ['write_to_file', { path: '.git/config', content: 'x' }],
    ['write_to_file', { path: 'HEAD', content: 'ref: refs/heads/main\n' }],
    ['delete_file', { path: 'to-folder/secret.txt' }],
    ['list_files', { recursive: true }],
    ['search_files', { pattern: 'OUTSIDE.SECRET' }],
  ]
  return [calls.map(([name, args]) => `!${name} ${JSON.stringify(args)}`).join('\n'), 'hello']
}

async function talk(config: Config, messages: string[], known?: string) {
  const server = await startServer(config)
  const client = createClient({ url: server.url, token: server.token })
  try {
    const id = known ?? (await client.createConversation({ title: 'ours' })).id
    for (const content of messages) {
      await client.sendMessage(id, { content })
      await untilIdle(client, id)
    }
    await client.session(id)
    await client.diff(id, {})
    await client.files(id, { limit: 50 })
    await client.context(id)
    const { items } = await client.checkpoints(id)
    const first = items.at(-1)?.checkpoint_id
    if (known !== undefined && first) {
      await client.restore(id, { checkpoint_id: first, dry_run: true })
      await client.restore(id, { checkpoint_id: first })
      const fork = await client.fork(id, { files: 'copy' })
      await client.sendMessage(fork.id, {
        content: '!write_to_file {"path":"HEAD","content":"ref: refs/heads/x"}',
      })
      await untilIdle(client, fork.id)
      await client.context(fork.id)
      expect(readFileSync(join(config.project, 'ours.txt'), 'utf8')).toBe('ours\n')
    }
    const frames = []
    for await (const part of client.stream(id, { follow: false }))
      frames.push(...part.flatMap((item) => (item.type === 'frame' ? item.text : [])))
    await server.close()
    const store = await openStore(config)
    const { problems } = await examineWorkspace(config, store, () => {})
    await store.close()
    return { id, frames, problems }
  } catch (error) {
    await server.close()
    throw error
  }
}

async function untilIdle(client: Client, id: string): Promise<void> {
  const busy = async () => {
    const { active, items } = await client.queue(id)
    return active !== null || items.length > 0
  }
  await expect.poll(busy, { timeout: 60_000, interval: 20 }).toBe(false)
}
