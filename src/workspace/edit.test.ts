import { createHash } from 'node:crypto'
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { filesOf, openTestWorkspace, type TestWorkspace } from '../../test/support/workspace.ts'

let one: TestWorkspace
afterEach(() => one.close())

const { at, write, read, listed } = filesOf(() => one)

describe("a tool's edit", () => {
  it.each([
    ['text', 'saved by a person', 'new text'],
    ['text that is deleted', 'saved by a person', null],
    ['binary', Buffer.from([0, 255, 1, 254]), 'new text'],
    ['something large', 'L'.repeat(900_000), 'new text'],
  ] as const)('[W10] keeps a file that changed since the last checkpoint: %s', async (_, saved, text) => {
    one = openTestWorkspace()
    write('a.txt', 'then')
    await one.checkpoint()
    write('a.txt', saved)
    // A look-ahead stores the files without making a checkpoint.
    await one.workspace.lookAhead()
    const edited = await one.tool('a.txt', text)
    if (!edited.isDone) throw new Error(edited.why)
    expect(edited.kept).toMatchObject({ changed: 1 })
    expect(existsSync(at('a.txt')) ? read('a.txt') : null).toBe(text)
    await one.restore(edited.kept?.id ?? '', ['a.txt'])
    expect(readFileSync(at('a.txt'))).toEqual(Buffer.from(saved))
  })

  it('[W10] makes no checkpoint for a file that a checkpoint has or a tool wrote', async () => {
    one = openTestWorkspace()
    write('a.txt', 'then')
    await one.checkpoint()
    for (const text of ['one', 'two', 'three', null]) {
      expect(await one.tool('a.txt', text)).toMatchObject({ isDone: true, kept: null })
    }
    expect(await one.tool('a.txt', null)).toEqual({ isDone: false, why: 'missing' })
  })

  it('[W10] is refused when the file has changed since it was read', async () => {
    one = openTestWorkspace()
    write('a.txt', 'changed since')
    const checkpoint = { label: 'x', parents: [], time: 1 }
    const expected = createHash('sha256').update('read').digest('hex')
    const command = { path: 'a.txt', bytes: Buffer.from('new'), expected, checkpoint }
    expect(await one.workspace.edit(command, async () => {})).toEqual({ isDone: false, why: 'changed' })
    expect(read('a.txt')).toBe('changed since')
  })

  it('[R4] touches nothing when the worker has lost the run', async () => {
    one = openTestWorkspace()
    write('a.txt', 'newer work')
    const command = {
      path: 'a.txt',
      bytes: Buffer.from('old'),
      checkpoint: { label: 'x', parents: [], time: 1 },
    }
    const lost = () => Promise.reject(new Error('lease lost'))
    await expect(one.workspace.edit(command, lost)).rejects.toThrow('lease lost')
    expect(read('a.txt')).toBe('newer work')
  })

  it('[W10] starts over when an editor saves the file meanwhile', async () => {
    one = openTestWorkspace()
    write('a.txt', 'then')
    const saves = ['first save', 'second save']
    const kept: string[] = []
    const checkpoint = { label: 'x', parents: [], time: 1 }
    const command = { path: 'a.txt', bytes: Buffer.from('by the tool'), checkpoint }
    const outcome = await one.workspace.edit(command, async (made) => {
      if (made) kept.push(made.id)
      const save = saves.shift()
      if (save === undefined) return
      // Like an editor: a new file replaces the old one.
      write('.a.txt.swp', save)
      renameSync(at('.a.txt.swp'), at('a.txt'))
    })
    expect(outcome).toMatchObject({ isDone: true })
    expect(read('a.txt')).toBe('by the tool')
    const versions = kept.map((id) => one.git('cat-file', 'blob', `${id}:a.txt`))
    expect(versions).toEqual(['then', 'first save', 'second save'])
  })

  it('[W10] keeps a file that an editor creates just before the tool does', async () => {
    one = openTestWorkspace()
    let kept: string | undefined
    const checkpoint = { label: 'x', parents: [], time: 1 }
    const command = { path: 'new.txt', bytes: Buffer.from('by the tool'), checkpoint }
    const outcome = await one.workspace.edit(command, async (made) => {
      if (made) kept = made.id
      else write('new.txt', 'by a person')
    })
    expect(outcome).toMatchObject({ isDone: true, kept: { id: kept } })
    expect(read('new.txt')).toBe('by the tool')
    expect(one.git('cat-file', 'blob', `${kept}:new.txt`)).toBe('by a person')
  })

  it('[W5] is rolled back at the next start when it was killed after moving the file aside', async () => {
    one = openTestWorkspace()
    write('src/a.txt', 'a person wrote this')
    await one.workspace.close()
    const folder = join(one.dataDir, 'tmp', 'edit')
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'paths'), JSON.stringify(['src/a.txt']))
    renameSync(at('src/a.txt'), join(folder, `taken-${createHash('sha1').update('src/a.txt').digest('hex')}`))
    await one.reopen()
    expect(listed(await one.checkpoint())).toEqual(['src/a.txt'])
    expect(read('src/a.txt')).toBe('a person wrote this')
    expect((await one.workspace.condition()).rescued).toEqual([])
  })

  it('[W10] rescues what a program still writes to the replaced file, under its path', async () => {
    one = openTestWorkspace()
    write('logs/a.log', 'one\n')
    await one.checkpoint()
    const log = openSync(at('logs/a.log'), 'a')
    await one.tool('logs/a.log', 'by the tool')
    writeSync(log, 'two\n')
    closeSync(log)
    await one.workspace.close()
    await one.reopen()
    const [rescued] = (await one.workspace.condition()).rescued
    expect(rescued?.path).toBe('logs/a.log')
    expect(readFileSync(join(one.dataDir, rescued?.file ?? ''), 'utf8')).toBe('one\ntwo\n')
  })
})

describe('a restore', () => {
  it.each(['append', 'in place', 'r+'])(
    '[W4] loses nothing that a program writes to an open file: %s',
    async (how) => {
      let onPlanned = () => {}
      one = openTestWorkspace({ onPlanned: () => onPlanned() })
      write('a.log', 'target\n')
      const target = await one.checkpoint()
      write('a.log', 'now\n')
      let file = -1
      onPlanned = () => {
        file = openSync(at('a.log'), how === 'append' ? 'a' : 'r+')
      }
      await one.restore(target)
      onPlanned = () => {}
      // The file was replaced, but the program still has the old one open.
      writeSync(file, 'late\n', how === 'append' ? null : 0)
      closeSync(file)
      expect(read('a.log')).toBe('target\n')
      await expect
        .poll(async () => (await one.workspace.condition()).rescued.map(({ path }) => path), {
          timeout: 5000,
        })
        .toEqual(['a.log'])
      const [rescued] = (await one.workspace.condition()).rescued
      expect(readFileSync(join(one.dataDir, rescued?.file ?? ''), 'utf8')).toContain('late\n')
    },
  )

  it('[W5] rescues late writes when it was killed before its final check', async () => {
    one = openTestWorkspace()
    write('saved.txt', 'then')
    await one.checkpoint()
    await one.workspace.close()
    const folder = join(one.dataDir, 'tmp', 'retired-1')
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'paths'), JSON.stringify(['saved.txt', 'src/late.txt']))
    const taken = (path: string) => join(folder, `taken-${createHash('sha1').update(path).digest('hex')}`)
    writeFileSync(taken('saved.txt'), 'then')
    writeFileSync(taken('src/late.txt'), 'no checkpoint has this')
    await one.reopen()
    await one.checkpoint()
    const { rescued } = await one.workspace.condition()
    expect(rescued.map(({ path }) => path)).toEqual(['src/late.txt'])
    expect(existsSync(folder)).toBe(false)
  })
})
