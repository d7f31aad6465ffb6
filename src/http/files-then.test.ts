import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allFrames, ask } from '../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'
import { rounds } from '../../test/support/soak.ts'

describe('the files as they were at an event', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())

  const call = (name: string, args: object) => `!${name} ${JSON.stringify(args)}`

  it('[P7] [W2] are those of the checkpoint with what tools had done by then, at every event', async () => {
    const paths = ['a.txt', 'deep/er/b.txt', 'deep/c.md', 'späße \u0001.txt']
    const content = fc.constantFrom('', 'one\n', 'one\r\ntwo\r\n', 'no newline at its end', 'ä\n\nz\n')
    const step = fc.oneof(
      fc.record({ type: fc.constant('write' as const), path: fc.constantFrom(...paths), content }),
      fc.record({ type: fc.constant('delete' as const), path: fc.constantFrom(...paths) }),
    )
    const messages = fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 3 })
    await fc.assert(
      fc.asyncProperty(messages, async (all) => {
        const { id } = await server.client.createConversation()
        for (const steps of all) {
          await ask(
            server,
            id,
            steps
              .map((one) =>
                one.type === 'write'
                  ? call('write_to_file', { path: one.path, content: one.content })
                  : call('delete_file', { path: one.path }),
              )
              .join('\n'),
          )
        }
        // What the edits say, one behind the other, from what was there at first.
        const wanted = new Map<string, string | null>()
        for (const path of paths) wanted.set(path, (await server.client.file(id, { path, at: 2 })).text)
        const steps = all.flat()
        for (const frame of await allFrames(server, id)) {
          if (
            frame.kind === 'tool.status' &&
            (frame as never as { tool: { status: string } }).tool.status === 'in_progress'
          ) {
            continue
          }
          if (frame.kind === 'tool.output') {
            const done = steps.shift()
            if (done?.type === 'write') wanted.set(done.path, done.content)
            if (done?.type === 'delete') wanted.set(done.path, null)
          }
          if (frame.kind === 'file.edit' || frame.event_id < 3) continue
          const path = paths[frame.event_id % paths.length] ?? ''
          const { text } = await server.client.file(id, { path, at: frame.event_id })
          expect([frame.event_id, path, text]).toEqual([frame.event_id, path, wanted.get(path)])
        }
        for (const path of paths) await ask(server, id, call('delete_file', { path }))
      }),
      { numRuns: rounds(4, 60) },
    )
  })

  it('[P7] are told apart from now: what was not there yet, what has gone, what is different', async () => {
    const { project } = server.config
    mkdirSync(join(project, 'src'), { recursive: true })
    writeFileSync(join(project, 'src', 'old.ts'), 'old\n')
    writeFileSync(join(project, 'same.txt'), 'same\n')
    const { id } = await server.client.createConversation()
    await ask(server, id, call('write_to_file', { path: 'src/new.ts', content: 'new\n' }))
    await ask(
      server,
      id,
      `${call('delete_file', { path: 'src/old.ts' })}\n${call('write_to_file', { path: 'src/new.ts', content: 'newer\n' })}`,
    )
    const second = (await server.client.messages(id)).items.filter((message) => message.role === 'user')[1]
    const at = (second?.event_number ?? 0) - 1
    const then = await server.client.files(id, { at })
    expect(then.items).toEqual(['same.txt', 'src/new.ts', 'src/old.ts'])
    expect(then.changed.map(({ path, status }) => [path, status])).toEqual([
      ['src/new.ts', 'modified'],
      ['src/old.ts', 'deleted'],
    ])
    expect(await server.client.file(id, { at, path: 'src/new.ts' })).toMatchObject({
      text: 'new\n',
      change: { status: 'modified', additions: 1, deletions: 1 },
    })
    expect(await server.client.file(id, { at, path: 'same.txt' })).toMatchObject({
      text: 'same\n',
      change: null,
    })
    const now = await server.client.files(id, { q: 'new' })
    expect(now).toMatchObject({ checkpoint_id: null, total: 2, items: ['src/new.ts'], changed: [] })
    expect((await server.client.files(id, { at: 1, q: 'old' })).changed.length).toBe(2)
  })

  it('are refused where there is no such event, path or workspace', async () => {
    const { id } = await server.client.createConversation()
    const status = async (path: string) => (await server.call(`/conversations/${id}${path}`)).status
    expect(await status('/files?at=9999')).toBe(404)
    expect(await status('/files?at=0')).toBe(400)
    expect(await status('/files/text')).toBe(400)
    expect(await status('/files/text?path=../secret')).toBe(400)
    expect(await status('/files/text?path=/etc/passwd')).toBe(400)
    expect(await server.client.file(id, { path: 'not/there.txt' })).toMatchObject({
      text: null,
      bytes: null,
      change: null,
    })
    const elsewhere = await server.client.createConversation({ workspace_id: 'Another.Place' })
    expect((await server.call(`/conversations/${elsewhere.id}/files`)).status).toBe(409)
  })

  it('[W6] a reset can be looked at before it is done', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, call('write_to_file', { path: 'to-go.txt', content: 'x' }))
    const preview = await server.client.reset(id, { dry_run: true })
    expect(preview).toMatchObject({ deleted: ['to-go.txt'], new_session: null, pre_reset_checkpoint: null })
    expect((await server.client.file(id, { path: 'to-go.txt' })).text).toBe('x')
    expect((await server.client.session(id)).active_session).toBe('session_1')
    expect(await server.client.reset(id)).toMatchObject({ deleted: ['to-go.txt'], new_session: 'session_2' })
  })
})
