import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allFrames, approve, ask, frameWhen, ofKind } from '../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'
import { rounds } from '../../test/support/soak.ts'

describe('the files as they were at an event', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())

  const call = (name: string, args: object) => `!${name} ${JSON.stringify(args)}`

  it('[P7] [W2] are those of the checkpoint with the edits that tools had made by then', {
    timeout: 1_200_000,
  }, async () => {
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
        // The edits applied one after the other to the initial content.
        const wanted = new Map<string, string | null>()
        for (const path of paths) wanted.set(path, (await server.client.file(id, { path, at: 2 })).text)
        const steps = all.flat()
        for (const frame of await allFrames(server, id)) {
          if (frame.kind === 'tool.output') {
            const done = steps.shift()
            if (done?.type === 'write') wanted.set(done.path, done.content)
            if (done?.type === 'delete') wanted.set(done.path, null)
          }
          // Between an edit and its outcome the tool is still running.
          if (frame.kind === 'file.edit' || frame.event_id < 3 || frame.event_id % 3 !== 0) continue
          const path = paths[frame.event_id % paths.length] ?? ''
          const { text } = await server.client.file(id, { path, at: frame.event_id })
          expect([frame.event_id, path, text]).toEqual([frame.event_id, path, wanted.get(path)])
        }
        for (const path of paths) await ask(server, id, call('delete_file', { path }))
      }),
      { numRuns: rounds(3, 60) },
    )
  })

  it('[P7] are compared with the current files: added, deleted and modified ones', async () => {
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

  it('[P7] include a file that replaced a folder, and list edits through links and oversized edits as unsure', async () => {
    const { project } = server.config
    mkdirSync(join(project, 'd'), { recursive: true })
    writeFileSync(join(project, 'd', 'f'), 'inside\n')
    writeFileSync(join(project, 'target.txt'), 'target\n')
    symlinkSync('target.txt', join(project, 'link.txt'))
    const lines = (word: string) => Array.from({ length: 9000 }, (_, i) => `${word} ${i}\n`).join('')
    writeFileSync(join(project, 'big.txt'), lines('old'))
    const { id } = await server.client.createConversation()
    const done = ask(
      server,
      id,
      [
        call('delete_file', { path: 'd/f' }),
        call('run_command', { command: 'rmdir d' }),
        call('write_to_file', { path: 'd', content: 'now a file\n' }),
        call('write_to_file', { path: 'link.txt', content: 'through the link\n' }),
        call('write_to_file', { path: 'big.txt', content: lines('new') }),
        call('replace_in_file', { path: 'big.txt', search: 'new 5\n', replace: 'CHANGED\n' }),
      ].join('\n'),
    )
    const { stream_id, tool_call_id } = await frameWhen(server, id, 'tool.approval')
    await approve(server.client, id, stream_id ?? '', tool_call_id)
    const edits = ofKind(await done, 'file.edit')
    expect(edits.map(({ path, change }) => [path, change])).toEqual([
      ['d/f', 'deleted'],
      ['d', 'added'],
      ['link.txt', 'modified'],
      ['big.txt', 'modified'],
      ['big.txt', 'modified'],
    ])
    const at = (nth: number) => edits[nth]?.event_id ?? 0
    expect((await server.client.file(id, { path: 'd/f', at: at(0) })).text).toBeNull()
    expect((await server.client.file(id, { path: 'd', at: at(1) })).text).toBe('now a file\n')
    expect((await server.client.files(id, { at: at(2) })).unsure).toEqual([
      { path: 'link.txt', reason: 'it is a link, and its target was changed' },
    ])
    // Never a mixture: the text is that before the edit, and the path is listed as unsure.
    const { text } = await server.client.file(id, { path: 'big.txt', at: at(4) })
    expect(text?.startsWith('old 0\n')).toBe(true)
    const { unsure } = await server.client.files(id, { at: at(4) })
    expect(unsure.map(({ path }) => path)).toEqual(['link.txt', 'big.txt'])
  })

  it('[P7] match a checkpoint at its own event, even if files were restored right after it', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, call('write_to_file', { path: 'v.txt', content: 'v1\n' }))
    await server.client.approve(id)
    await ask(server, id, call('write_to_file', { path: 'v.txt', content: 'v2\n' }))
    await server.client.reset(id)
    const frames = await allFrames(server, id)
    const before = ofKind(frames, 'workspace.checkpoint').find((frame) => frame.label === 'Before reset')
    const textAt = async (event: number) => (await server.client.file(id, { path: 'v.txt', at: event })).text
    expect(await textAt(before?.event_id ?? 0)).toBe('v2\n')
    expect(await textAt(ofKind(frames, 'session.reset')[0]?.event_id ?? 0)).toBe('v1\n')
  })

  it('are refused for an invalid event, path or workspace', async () => {
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

  it('[W6] stay unchanged by the preview of a reset', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, call('write_to_file', { path: 'to-go.txt', content: 'x' }))
    const preview = await server.client.reset(id, { dry_run: true })
    expect(preview).toMatchObject({ deleted: ['to-go.txt'], new_session: null, pre_reset_checkpoint: null })
    expect((await server.client.file(id, { path: 'to-go.txt' })).text).toBe('x')
    expect((await server.client.session(id)).active_session).toBe('session_1')
    expect(await server.client.reset(id)).toMatchObject({ deleted: ['to-go.txt'], new_session: 'session_2' })
  })
})
