import { createHash } from 'node:crypto'
import {
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { filesOf, openTestWorkspace, type TestWorkspace } from '../../test/support/workspace.ts'
import { newId } from '../protocol/ids.ts'
import { writeBranches } from './repository.ts'

let one: TestWorkspace
afterEach(() => one.close())

const { at, write, read, listed } = filesOf(() => one)

describe('regressions found by attacks', () => {
  const tool = (path: string, text: string) => one.tool(path, text)

  it('[W4] undoes only what the restore did, and keeps changes made since', async () => {
    one = openTestWorkspace()
    for (const path of ['ours', 'theirs', 'other']) write(path, 'then')
    const target = await one.checkpoint()
    for (const path of ['ours', 'theirs']) write(path, 'now')
    const safety = await one.checkpoint()
    await one.workspace.restore({ target, safety, paths: null })
    write('theirs', 'edited meanwhile')
    write('other', 'edited meanwhile')
    write('new', 'made meanwhile')
    const report = await one.workspace.undo({ target, safety, paths: null })
    expect(report.restored).toEqual(['ours'])
    expect(report.skipped.map((skip) => skip.path)).toEqual(['theirs'])
    expect([read('ours'), read('theirs'), read('other'), read('new')]).toEqual([
      'now',
      'edited meanwhile',
      'edited meanwhile',
      'made meanwhile',
    ])
  })

  it('[W5] never writes into a file that is already in place when it repeats a restore', async () => {
    one = openTestWorkspace()
    write('f', 'then')
    const target = await one.checkpoint()
    write('f', 'now')
    const safety = await one.checkpoint()
    // As if killed after linking the new file into place and before removing its temporary name.
    const fresh = join(one.dataDir, 'tmp/restore', `fresh-${createHash('sha1').update('f').digest('hex')}`)
    mkdirSync(join(fresh, '..'), { recursive: true })
    write('f', 'then')
    linkSync(at('f'), fresh)
    chmodSync(fresh, 0o444)
    writeFileSync(at('f'), 'then, and edited in place')
    const report = await one.workspace.restore({ target, safety, paths: null })
    expect(report.skipped).toEqual([{ path: 'f', reason: 'it changed in the meantime' }])
    expect(read('f')).toBe('then, and edited in place')
  })

  it('[W5] rescues a file that was moved aside and never compared', async () => {
    one = openTestWorkspace()
    write('f', 'then')
    const target = await one.checkpoint()
    write('f', 'now')
    const safety = await one.checkpoint()
    const taken = join(one.dataDir, 'tmp/restore', `taken-${createHash('sha1').update('f').digest('hex')}`)
    mkdirSync(join(taken, '..'), { recursive: true })
    writeFileSync(taken, 'saved by an editor in that moment')
    write('f', 'something else again')
    const report = await one.workspace.restore({ target, safety, paths: null })
    expect(report.skipped).toHaveLength(1)
    const [rescued] = (await one.workspace.condition()).rescued
    expect(rescued?.path).toBe('f')
    expect(readFileSync(join(one.dataDir, rescued?.file ?? ''), 'utf8')).toBe(
      'saved by an editor in that moment',
    )
  })

  it('keeps checkpoints whose frames are not stored yet', async () => {
    one = openTestWorkspace()
    write('f', 'precious')
    const { id } = await one.workspace.checkpoint({ label: 'no frame yet', parents: [], time: Date.now() })
    write('f', 'later')
    await one.workspace.collect([], Date.now() - 60_000, 0)
    expect(one.git('cat-file', 'blob', `${id}:f`)).toBe('precious')
  })

  it('[W3] knows files that tools of another process have overwritten', async () => {
    one = openTestWorkspace()
    write('.env', 'mine')
    const target = await one.checkpoint()
    const other = openTestWorkspace({ root: one.root })
    await other.checkpoint()
    await tool('.env', 'by the agent')
    const now = await other.checkpoint()
    expect(one.git('ls-tree', '--name-only', now)).toBe('.env\n')
    await other.workspace.collect([target, now], 0, 0)
    expect((await other.restore(target)).restored).toEqual(['.env'])
    expect(read('.env')).toBe('mine')
    await other.workspace.close()
  })

  it('[W3] rebuilds a lost or damaged manifest, including the files that tools have overwritten', async () => {
    one = openTestWorkspace()
    write('.env', 'mine')
    const target = await one.checkpoint()
    await tool('.env', 'by the agent')
    const tip = await one.checkpoint()
    writeBranches(one.dataDir, newId('conv'), { heads: { session_1: tip }, current: 'session_1' })
    await one.workspace.close()
    for (const end of ['-wal', '-shm']) rmSync(join(one.dataDir, `manifest.db${end}`), { force: true })
    writeFileSync(
      join(one.dataDir, 'manifest.db'),
      'this is no database at all, but it is long enough'.repeat(20),
    )
    await one.reopen()
    await one.restore(target)
    expect(read('.env')).toBe('mine')
  })

  it('stores objects again when the store has lost their packs', async () => {
    one = openTestWorkspace()
    write('f', 'precious')
    await one.checkpoint()
    const folder = join(one.dataDir, 'store/objects/pack')
    for (const name of readdirSync(folder)) rmSync(join(folder, name))
    const { id } = await one.workspace.checkpoint({ label: 'after', parents: [], time: Date.now() })
    expect(one.git('cat-file', 'blob', `${id}:f`)).toBe('precious')
  })

  it('does not let a file hide in the diff of another', async () => {
    one = openTestWorkspace()
    write('a.txt', 'x\n')
    write('evil.js', 'ok()\n')
    const from = await one.checkpoint()
    write('a.txt', 'x\ny\rdiff --git a/evil.js b/evil.js\n\u2028diff --git a/evil.js b/evil.js\n')
    write('evil.js', 'ok()\nremoveAll()\n')
    const [, evil] = await one.workspace.diff(from, null, null)
    expect(evil?.diff).toContain('+removeAll()')
  })

  it('[W3] does not follow a link that replaced a folder with tool-written files', async () => {
    one = openTestWorkspace()
    const outside = join(one.dataDir, 'outside')
    mkdirSync(outside)
    writeFileSync(join(outside, 'made.js'), 'theirs')
    await one.checkpoint()
    await tool('build/sub/made.js', 'made')
    await one.checkpoint()
    rmSync(at('build/sub'), { recursive: true })
    symlinkSync(outside, at('build/sub'))
    expect(listed(await one.checkpoint())).toEqual([])
  })

  it('[W4] previews the files that a restore will skip', async () => {
    one = openTestWorkspace({ maxFileBytes: 100 })
    write('thing', 'a file')
    write('other', 'a file')
    const target = await one.checkpoint()
    rmSync(at('thing'))
    write('thing/.hidden', 'mine')
    rmSync(at('other'))
    write('other/captured', 'x')
    const foreseen = await one.workspace.preview({ target, paths: null })
    expect(foreseen).toEqual(await one.restore(target))
    expect(foreseen.skipped.map((skip) => skip.path)).toEqual(['thing'])
  })

  it('[W4] restores tool-written files only once, and shows their actual state in a diff', async () => {
    one = openTestWorkspace()
    write('.env', 'mine\n')
    write('.gone', 'gone\n')
    const target = await one.checkpoint()
    await tool('.env', 'by the agent\n')
    await one.tool('.gone', null)
    await tool('.made', 'made\n')
    const changed = await one.workspace.differences(target, null)
    expect(changed.map(({ path, status }) => [path, status])).toEqual([
      ['.env', 'modified'],
      ['.gone', 'deleted'],
      ['.made', 'added'],
    ])
    expect((await one.restore(target)).restored).toEqual(['.env', '.gone'])
    expect(await one.restore(target)).toEqual({ restored: [], deleted: [], skipped: [], rescued: [] })
    expect(await one.workspace.differences(target, null)).toEqual([])
  })
})
