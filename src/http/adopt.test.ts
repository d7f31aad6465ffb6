import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ask } from '../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'
import { rounds } from '../../test/support/soak.ts'
import { everythingIn } from '../../test/support/workspace.ts'
import { copyFolder } from '../workspace/repository.ts'

describe('adopting the files of a fork', () => {
  let server: TestServer
  let id: string
  let project: string
  beforeAll(async () => {
    server = await startTestServer({ tools: { run_command: 'allow' } })
    project = server.config.project
  })
  afterAll(() => server.close())

  const names = ['a.txt', 'b.txt', 'sub/c.txt', 'sub/d.txt', 'sub']
  beforeEach(async () => {
    for (const name of names) rmSync(join(project, name), { recursive: true, force: true })
    id = (await server.client.createConversation()).id
  })

  const put = (root: string, path: string, content: string | null) => {
    if (content === null) return rmSync(join(root, path), { recursive: true, force: true })
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), content)
  }
  const read = (root: string, path: string) =>
    existsSync(join(root, path)) ? readFileSync(join(root, path), 'utf8') : null
  const fork = async () => {
    const { id: forkId } = await server.client.fork(id, { files: 'copy' })
    return { forkId, copy: copyFolder(server.config.dataDir, forkId) }
  }

  it('[W11] merges lines of one file, adds and deletes files, and can be undone byte for byte', async () => {
    const lines = Array.from({ length: 20 }, (_, at) => `line ${at}`)
    const text = (change: Record<number, string>) =>
      `${lines.map((line, at) => change[at] ?? line).join('\n')}\n`
    put(project, 'a.txt', text({}))
    put(project, 'b.txt', 'to delete\n')
    const { forkId, copy } = await fork()
    await ask(
      server,
      forkId,
      `!write_to_file ${JSON.stringify({ path: 'a.txt', content: text({ 2: 'fork' }) })}`,
    )
    put(copy, 'b.txt', null)
    put(copy, 'sub/c.txt', 'new\n')
    put(project, 'a.txt', text({ 15: 'project' }))
    const before = everythingIn(project)
    const copyBefore = everythingIn(copy)
    const foreseen = await server.client.adopt(id, { from: forkId, dry_run: true })
    expect(everythingIn(project)).toEqual(before)
    const done = await server.client.adopt(id, { from: forkId })
    expect(done).toMatchObject({
      restored: ['a.txt', 'sub/c.txt'],
      deleted: ['b.txt'],
      skipped: [],
      conflicts: [],
    })
    expect({ ...foreseen, ...ids(done) }).toEqual(done)
    expect(read(project, 'a.txt')).toBe(text({ 2: 'fork', 15: 'project' }))
    expect(everythingIn(copy)).toEqual(copyBefore)
    const [newest] = (await server.client.checkpoints(id)).items
    expect(newest?.label).toMatch(/^Adopted from/)
    await server.client.restore(id, { checkpoint_id: done.safety_checkpoint ?? '' })
    expect(everythingIn(project)).toEqual(before)
  })

  const ids = ({ restored_to, new_checkpoint, safety_checkpoint }: Record<string, unknown>) => ({
    restored_to,
    new_checkpoint,
    safety_checkpoint,
  })

  it('[W11] lists a conflict and keeps the file, or takes the one of the fork if that was chosen', async () => {
    put(project, 'a.txt', 'base\n')
    const { forkId, copy } = await fork()
    put(copy, 'a.txt', 'fork\n')
    put(project, 'a.txt', 'project\n')
    const kept = await server.client.adopt(id, { from: forkId })
    expect(kept.conflicts).toEqual(['a.txt'])
    expect(kept.skipped).toEqual([{ path: 'a.txt', reason: expect.stringContaining('both sides') as string }])
    expect(read(project, 'a.txt')).toBe('project\n')
    put(copy, 'a.txt', 'fork again\n')
    const taken = await server.client.adopt(id, { from: forkId, prefer_other: true })
    expect(taken).toMatchObject({ conflicts: ['a.txt'], restored: ['a.txt'], skipped: [] })
    expect(read(project, 'a.txt')).toBe('fork again\n')
  })

  it('[W11] lists a skipped conflict again, and adopts files again after an undone adoption', async () => {
    put(project, 'a.txt', 'base\n')
    put(project, 'b.txt', 'base\n')
    const { forkId, copy } = await fork()
    put(copy, 'a.txt', 'fork\n')
    put(copy, 'b.txt', 'fork\n')
    put(project, 'a.txt', 'project\n')
    const first = await server.client.adopt(id, { from: forkId })
    expect(first).toMatchObject({ conflicts: ['a.txt'], restored: ['b.txt'] })
    expect(await server.client.adopt(id, { from: forkId, dry_run: true })).toMatchObject({
      conflicts: ['a.txt'],
      restored: [],
    })
    await server.client.restore(id, { checkpoint_id: first.safety_checkpoint ?? '' })
    expect(read(project, 'b.txt')).toBe('base\n')
    const again = await server.client.adopt(id, { from: forkId, prefer_other: true })
    expect(again).toMatchObject({ conflicts: ['a.txt'], restored: ['a.txt', 'b.txt'] })
    await server.client.restore(id, { checkpoint_id: again.safety_checkpoint ?? '' })
    expect(await server.client.adopt(id, { from: forkId, prefer_other: true })).toMatchObject({
      restored: ['a.txt', 'b.txt'],
    })
  })

  it('[W11] never deletes a file that the fork has but its checkpoint leaves out', async () => {
    put(project, '.hidden', 'tracked\n')
    put(project, 'a.txt', 'base\n')
    execFileSync('git', ['init', '-q'], { cwd: project })
    execFileSync('git', ['add', '.hidden'], { cwd: project })
    try {
      const { forkId, copy } = await fork()
      expect(read(copy, '.hidden')).toBe('tracked\n')
      put(copy, 'a.txt', 'fork\n')
      put(copy, '.gitignore', 'b.txt\n')
      const done = await server.client.adopt(id, { from: forkId })
      expect(done).toMatchObject({ restored: ['a.txt'], deleted: [] })
      expect(read(project, '.hidden')).toBe('tracked\n')
    } finally {
      for (const name of ['.git', '.hidden']) rmSync(join(project, name), { recursive: true, force: true })
    }
  })

  it('[W11] keeps both sides of a rename, and replaces a folder by a file', async () => {
    const lines = Array.from({ length: 20 }, (_, at) => `line ${at}`)
    put(project, 'a.txt', lines.join('\n'))
    put(project, 'sub/c.txt', 'below\n')
    const { forkId, copy } = await fork()
    put(copy, 'a.txt', null)
    put(copy, 'b.txt', [...lines, 'fork'].join('\n'))
    put(copy, 'sub', null)
    put(copy, 'sub', 'a file\n')
    put(project, 'a.txt', ['project', ...lines].join('\n'))
    const done = await server.client.adopt(id, { from: forkId })
    expect(done).toMatchObject({ conflicts: ['a.txt'], restored: ['b.txt', 'sub'], deleted: ['sub/c.txt'] })
    expect(read(project, 'a.txt')).toContain('project')
    expect(read(project, 'b.txt')).toContain('fork')
    expect(read(project, 'sub')).toBe('a file\n')
  })

  it('[W11] adopts permissions with the files', async () => {
    put(project, 'a.txt', 'base\n')
    const { forkId, copy } = await fork()
    put(copy, 'b.txt', 'private\n')
    chmodSync(join(copy, 'b.txt'), 0o600)
    put(copy, 'sub/c.txt', 'run\n')
    chmodSync(join(copy, 'sub/c.txt'), 0o755)
    await server.client.adopt(id, { from: forkId })
    expect(statSync(join(project, 'b.txt')).mode & 0o777).toBe(0o600)
    expect(statSync(join(project, 'sub/c.txt')).mode & 0o777).toBe(0o755)
  })

  it('[W11] adopts all changes of a fork of a fork, and tracks adoptions per target', async () => {
    put(project, 'a.txt', 'base\n')
    const { forkId, copy } = await fork()
    put(copy, 'a.txt', 'fork\n')
    const grandchild = await server.client.fork(forkId, { files: 'copy' })
    const below = copyFolder(server.config.dataDir, grandchild.id)
    put(below, 'b.txt', 'grandchild\n')
    expect((await server.client.adopt(id, { from: grandchild.id })).restored).toEqual(['a.txt', 'b.txt'])
    expect((await server.client.adopt(forkId, { from: grandchild.id })).restored).toEqual(['b.txt'])
  })

  it('[W11] keeps a file where the fork has a folder, and the folder where the fork has a file', async () => {
    put(project, 'a.txt', 'base\n')
    const { forkId, copy } = await fork()
    put(copy, 'sub/c.txt', 'below the folder\n')
    put(project, 'sub', 'a file\n')
    const done = await server.client.adopt(id, { from: forkId, prefer_other: true })
    expect(done.conflicts).toEqual(['sub/c.txt'])
    expect(read(project, 'sub')).toBe('a file\n')
    expect(done.restored).toEqual([])
  })

  it('[W11] refuses conversations that share their files, and while a run is active', async () => {
    const shared = await server.client.fork(id, {})
    await expect(server.client.adopt(id, { from: shared.id })).rejects.toMatchObject({ status: 400 })
    const { forkId } = await fork()
    const { run_id } = await server.client.sendMessage(id, { content: '!run_command {"command":"sleep 20"}' })
    await expect.poll(async () => (await server.client.queue(id)).active?.run_id ?? null).toBe(run_id)
    await expect(server.client.adopt(id, { from: forkId })).rejects.toMatchObject({ status: 409 })
    await server.client.stop(id)
  })

  it('[W11] matches a three-way comparison of each file, over repeated adoptions', {
    timeout: 600_000,
  }, async () => {
    const files = names.slice(0, 4)
    const change = fc.record({
      side: fc.constantFrom('project', 'fork'),
      file: fc.nat(3),
      isGone: fc.boolean(),
    })
    const round = fc.record({ changes: fc.array(change, { maxLength: 6 }), isForkPreferred: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.array(round, { minLength: 1, maxLength: 3 }), async (all) => {
        id = (await server.client.createConversation()).id
        for (const file of files) put(project, file, Math.random() < 0.5 ? null : unlike())
        const { forkId, copy } = await fork()
        const state = (folder: string) => new Map(files.map((file) => [file, read(folder, file)]))
        let base = state(copy)
        let last: { base: typeof base; before: typeof base; after: typeof base } | null = null
        for (const { changes, isForkPreferred } of all) {
          for (const { side, file, isGone } of changes) {
            put(side === 'fork' ? copy : project, files[file] ?? '', isGone ? null : unlike())
          }
          // An adoption all of whose files are as before it was undone, so it does not count.
          const undone = last?.before
          const adopted = files.filter((file) => last?.before.get(file) !== last?.after.get(file))
          const isUndone =
            adopted.length > 0 && adopted.every((file) => read(project, file) === undone?.get(file))
          if (last && isUndone) base = last.base
          const [before, theirsThen] = [state(project), state(copy)]
          const expected = new Map<string, string | null>()
          const conflicts: string[] = []
          for (const file of files) {
            const [old, ours, theirs] = [base.get(file) ?? null, read(project, file), read(copy, file)]
            const isConflict = ours !== theirs && ours !== old && theirs !== old
            if (isConflict) conflicts.push(file)
            const isTheirs = isConflict ? isForkPreferred : theirs !== old
            expected.set(file, isTheirs ? theirs : ours)
          }
          const done = await server.client.adopt(id, { from: forkId, prefer_other: isForkPreferred })
          expect(done.conflicts).toEqual(conflicts)
          for (const file of files) expect([file, read(project, file)]).toEqual([file, expected.get(file)])
          // The next round starts from what the fork has, except where the project has kept its own.
          if (conflicts.length > 0) return
          last = { base, before, after: state(project) }
          base = theirsThen
        }
      }),
      { numRuns: rounds(8, 200) },
    )
  })

  /** A content that git does not take for a renamed file. */
  const unlike = () => `${randomBytes(32).toString('hex')}\n`
})
