import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Client, createClient } from '../../src/client/index.ts'
import { type Config, ConfigError, readConfig } from '../../src/config.ts'
import { examineWorkspace } from '../../src/server/offline.ts'
import { startServer } from '../../src/server/server.ts'
import { openStore } from '../../src/server/store.ts'
import { untrustedPart } from '../../src/trust.ts'
import { rounds } from '../support/soak.ts'
import { everythingIn } from '../support/workspace.ts'
import { createCanary } from './git-canaries.ts'
import { plantProject, seeded } from './hostile-project.ts'

const SECRET = 'OUTSIDE-SECRET'

interface Site {
  folder: string
  project: string
  outside: string
  environment: Record<string, string>
}

describe('a hostile project', () => {
  it(
    '[T1] [T2] [T3] runs no program, accesses nothing outside, and damages no history',
    async () => {
      const seed = Number(process.env.WAYMARK_SEED ?? Date.now() % 1_000_000)
      const total = rounds(14, 2000)
      const base = mkdtempSync(join(tmpdir(), 'waymark-hostile-'))
      const site = siteIn(join(base, 'site'))
      const before = await makeHistory(site)
      cpSync(site.folder, join(base, 'template'), { recursive: true })
      for (let i = 0; i < total; i++) {
        // Reuse one path, since data folders are named by the project's path.
        rmSync(site.folder, { recursive: true, force: true })
        cpSync(join(base, 'template'), site.folder, { recursive: true })
        const planted = await round(site, before, seed + i, i % 10 === 0)
        if (i % 50 === 49) console.log(`${i + 1} of ${total}; last: ${planted.join(', ')}`)
      }
      rmSync(base, { recursive: true, force: true })
      expect(before.frames.length).toBeGreaterThan(0)
    },
    rounds(240_000, 10_000_000),
  )
})

function siteIn(folder: string): Site {
  const [project, outside, home] = ['project', 'outside', 'home'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ]
  for (const path of [project, outside, home]) mkdirSync(path, { recursive: true })
  writeFileSync(join(outside, 'secret.txt'), SECRET)
  writeFileSync(join(project, 'ours.txt'), 'ours\n')
  const path = `.:${join(project, 'bin')}:${join(project, 'node_modules/.bin')}:${process.env.PATH}`
  return { folder, project, outside, environment: { HOME: home, PATH: path } }
}

/** Makes a conversation before anything is planted. */
async function makeHistory({ project, environment }: Site) {
  const message = '!write_to_file {"path":"ours.txt","content":"ours, changed\\n"}'
  return await talk(settings(project, environment), [message])
}

/** Plants attacks in the project, as a pull or an unpacked archive would, then works in it as usual. */
async function round(site: Site, before: Talk, seed: number, isExamined: boolean): Promise<string[]> {
  const { folder, project, outside, environment } = site
  const canary = createCanary(folder)
  const planted = plantProject({ project, outside, canary, random: seeded(seed) })
  const said = `seed ${seed}: ${planted.join(', ')}`
  try {
    const untouched = everythingIn(outside, [])
    const config = await trusted(project, environment)
    const after = await talk(config, hostileMessages(outside), before.id)
    expect(canary.marks()).toEqual([])
    expect(everythingIn(outside, [])).toEqual(untouched)
    expect(after.frames.join('\n').includes(SECRET)).toBe(false)
    expect(after.frames.slice(0, before.frames.length)).toEqual(before.frames)
    if (isExamined) expect(await problemsIn(config)).toEqual([])
    return planted
  } catch (error) {
    throw new Error(said, { cause: error })
  }
}

async function problemsIn(config: Config): Promise<string[]> {
  const store = await openStore(config)
  const { problems } = await examineWorkspace(config, store, () => {})
  await store.close()
  return problems
}

interface Talk {
  id: string
  frames: string[]
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

/** Like `waymark serve`: rejects untrusted project settings, which the person then reviews and removes. */
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
  const calls: [string, object][] = [
    ['read_file', { path: 'to-secret' }],
    ['read_file', { path: 'to-folder/secret.txt' }],
    ['write_to_file', { path: 'to-folder/new.txt', content: 'x' }],
    ['write_to_file', { path: `${outside}/new.txt`, content: 'x' }],
    ['write_to_file', { path: '.git/config', content: 'x' }],
    ['write_to_file', { path: 'HEAD', content: 'ref: refs/heads/main\n' }],
    ['delete_file', { path: 'to-folder/secret.txt' }],
    ['search_files', { pattern: 'OUTSIDE.SECRET' }],
  ]
  return [calls.map(([name, args]) => `!${name} ${JSON.stringify(args)}`).join('\n'), 'hello']
}

async function talk(config: Config, messages: string[], known?: string): Promise<Talk> {
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
    const frames: string[] = []
    for await (const part of client.stream(id, { follow: false }))
      frames.push(...part.flatMap((item) => (item.type === 'frame' ? item.text : [])))
    await server.close()
    return { id, frames }
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
