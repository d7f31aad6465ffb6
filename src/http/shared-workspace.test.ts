import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ask, finalOf } from '../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'

/** Two conversations that work on the same files. */
describe('conversations that share a workspace', () => {
  let server: TestServer
  let ours: string
  let theirs: string
  beforeAll(async () => {
    server = await startTestServer({ tools: { run_command: 'allow' } })
  })
  afterAll(() => server.close())
  beforeEach(async () => {
    for (const name of ['ours.txt', 'theirs.txt', 'person.txt', 'made.txt', 'shared.txt']) {
      rmSync(at(name), { force: true })
    }
    writeFileSync(at('shared.txt'), 'shared\n')
    ours = (await server.client.createConversation({ title: 'Ours' })).id
    theirs = (await server.client.createConversation({ title: 'Theirs' })).id
    await server.client.session(ours)
    await server.client.session(theirs)
  })

  const at = (path: string) => join(server.config.project, path)
  const read = (path: string) => (existsSync(at(path)) ? readFileSync(at(path), 'utf8') : null)
  const write = (path: string, content: string) => `!write_to_file ${JSON.stringify({ path, content })}`
  const say = async (id: string, content: string) => finalOf(await ask(server, id, content))

  it('[W6] reset keeps changes that another conversation approved', async () => {
    await say(ours, write('ours.txt', 'ours\n'))
    await say(theirs, write('theirs.txt', 'theirs\n'))
    await server.client.approve(theirs)
    const done = await server.client.reset(ours)
    // An approval covers every file, including changes of other conversations.
    expect(done).toMatchObject({ restored: [], deleted: [], skipped: [] })
    expect([read('ours.txt'), read('theirs.txt')]).toEqual(['ours\n', 'theirs\n'])
    await say(ours, write('ours.txt', 'again\n'))
    await server.client.reset(ours)
    expect([read('ours.txt'), read('theirs.txt')]).toEqual(['ours\n', 'theirs\n'])
  })

  it('[W6] reset reverts its own changes and those outside any conversation, and lists the others', async () => {
    await say(ours, write('ours.txt', 'ours\n'))
    await say(theirs, `${write('theirs.txt', 'theirs\n')}\n!run_command {"command":"echo x > made.txt"}`)
    await say(ours, 'hello')
    writeFileSync(at('shared.txt'), 'by a person\n')
    const foreseen = await server.client.reset(ours, { dry_run: true })
    const done = await server.client.reset(ours)
    const skipped = [
      { path: 'made.txt', reason: '“Theirs” changed it since the last approval' },
      { path: 'theirs.txt', reason: '“Theirs” changed it since the last approval' },
    ]
    expect(done.skipped).toEqual(skipped)
    expect(foreseen.skipped).toEqual(skipped)
    expect(done.deleted).toEqual(['ours.txt'])
    expect(done.restored).toEqual(['shared.txt'])
    expect(read('theirs.txt')).toBe('theirs\n')
    expect(read('made.txt')).toBe('x\n')
  })

  it('[W6] reset reverts changes of other conversations with include_others', async () => {
    await say(theirs, write('theirs.txt', 'theirs\n'))
    const done = await server.client.reset(ours, { include_others: true })
    expect(done).toMatchObject({ deleted: ['theirs.txt'], skipped: [] })
    expect(read('theirs.txt')).toBe(null)
  })

  it('[W6] names the conversations that made each change', async () => {
    await say(ours, write('ours.txt', 'ours\n'))
    await say(theirs, `${write('theirs.txt', 'theirs\n')}\n!run_command {"command":"echo x > made.txt"}`)
    await say(ours, 'hello')
    // This checkpoint ends the window in which changes count as made by the run.
    await server.client.restore(ours, {
      checkpoint_id: (await server.client.checkpoints(ours)).items[0]?.checkpoint_id ?? '',
    })
    writeFileSync(at('person.txt'), 'by a person\n')
    const { changed_files } = await server.client.session(ours)
    const by = Object.fromEntries(changed_files.map((file) => [file.path, file.by]))
    expect(by['ours.txt']).toEqual([{ conversation_id: ours, title: 'Ours', how: 'tool' }])
    expect(by['theirs.txt']).toEqual([{ conversation_id: theirs, title: 'Theirs', how: 'tool' }])
    expect(by['made.txt']).toEqual([{ conversation_id: theirs, title: 'Theirs', how: 'tool' }])
    expect(by['person.txt']).toEqual([])
  })
})
