import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { filesOf, openTestWorkspace, type TestWorkspace } from '../../test/support/workspace.ts'

/** Bundles as another server, or an attacker, may have made them. */
let one: TestWorkspace
let folder: string
let repository: string
const { write, read } = filesOf(() => one)

beforeEach(() => {
  one = openTestWorkspace()
  folder = mkdtempSync(join(tmpdir(), 'waymark-bundle-'))
  repository = join(folder, 'made')
  execFileSync('git', ['init', '-q', '--bare', repository])
})
afterEach(async () => {
  await one.close()
  rmSync(folder, { recursive: true, force: true })
})

function git(input: string | Buffer, ...args: string[]): string {
  const env = { ...process.env, GIT_DIR: repository }
  return execFileSync('git', args, { input, env }).toString().trim()
}

/** Writes the object literally, because git's own commands refuse to create some of these. */
function object(type: 'blob' | 'tree' | 'commit', body: Buffer): string {
  return git(body, 'hash-object', '-t', type, '-w', '--stdin', '--literally')
}

function tree(...entries: [mode: string, name: string, oid: string][]): string {
  return object(
    'tree',
    Buffer.concat(
      entries.map(([mode, name, oid]) =>
        Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(oid, 'hex')]),
      ),
    ),
  )
}

function record(content: object): string {
  const stored = {
    left_out: [],
    empty_folders: [],
    permissions: [],
    umask: '22',
    tool_written: [],
    ...content,
  }
  return tree(['100644', 'record.json', object('blob', Buffer.from(JSON.stringify(stored)))])
}

function commit(files: string, of: string, more = ''): string {
  const who = 'x <x@y> 1700000000 +0000'
  const text = `tree ${files}\nauthor ${who}\ncommitter ${who}\n\nlabel\n\n${more}Waymark-Record: ${of}\nWaymark-Time: 2026-01-01T00:00:00.000Z\n`
  return object('commit', Buffer.from(text))
}

function bundle(...tips: string[]): string {
  const file = join(folder, 'file.bundle')
  for (const tip of tips) git('', 'update-ref', `refs/tips/${tip}`, tip)
  git('', 'bundle', 'create', '--quiet', file, '--all')
  return file
}

describe('[T7] reading a bundle from elsewhere', () => {
  it('imports checkpoints that can be restored', async () => {
    const files = tree(['100644', 'a.txt', object('blob', Buffer.from('hi'))])
    const of = record({})
    const id = commit(files, of)
    await one.workspace.readBundle(bundle(id, of), [id])
    await one.restore(id)
    expect(read('a.txt')).toBe('hi')
  })

  it.each(['..', '.', '.git', '.GIT', 'a/b', 'git~1'])('refuses a tree with the name %s', async (name) => {
    const inner = tree(['100644', 'x', object('blob', Buffer.from('evil'))])
    const of = record({})
    const id = commit(tree(['40000', name, inner]), of)
    await expect(one.workspace.readBundle(bundle(id, of), [id])).rejects.toThrow(/git index-pack/)
    expect(await one.workspace.has([id])).toBe(false)
  })

  it('refuses one without the checkpoint, one that relies on other objects, and an invalid file', async () => {
    const of = record({})
    const first = commit(tree(['100644', 'a.txt', object('blob', Buffer.from('1'))]), of)
    const file = bundle(first, of)
    await expect(one.workspace.readBundle(file, ['ab'.repeat(20)])).rejects.toThrow(/not in the file/)
    const thin = join(folder, 'thin.bundle')
    const who = 'x <x@y> 1700000001 +0000'
    const text = `tree ${tree()}\nparent ${first}\nauthor ${who}\ncommitter ${who}\n\nlabel\n`
    const second = object('commit', Buffer.from(text))
    git('', 'update-ref', 'refs/heads/second', second)
    git('', 'bundle', 'create', '--quiet', thin, `${first}..refs/heads/second`)
    await expect(one.workspace.readBundle(thin, [])).rejects.toThrow(/relies on objects/)
    const junk = join(folder, 'junk')
    writeFileSync(junk, '# v2 git bundle\nnonsense')
    await expect(one.workspace.readBundle(junk, [])).rejects.toThrow(/not a git bundle/)
  })

  it('creates, chmods and deletes nothing outside the workspace, whatever the record contains', async () => {
    const outside = join(one.root, '..', `outside-${process.pid}`)
    mkdirSync(outside)
    const name = `../outside-${process.pid}`
    try {
      const files = tree(['100644', 'a.txt', object('blob', Buffer.from('hi'))])
      const of = record({
        empty_folders: [`${name}/made`, '/tmp/made', '.git/hooks', 'inside'],
        permissions: [
          [name, '000'],
          ['a.txt', '600'],
        ],
        tool_written: [{ path: `${name}/x`, at: 1, before: { object_id: 'HEAD\nHEAD', mode: '644' } }],
      })
      const id = commit(files, of)
      await one.workspace.readBundle(bundle(id, of), [id])
      write('b.txt', 'mine')
      await one.workspace.adopt(id)
      await one.restore(id)
      expect(read('a.txt')).toBe('hi')
      expect(existsSync(join(one.root, 'inside'))).toBe(true)
      expect(existsSync(join(outside, 'made'))).toBe(false)
      expect(existsSync(join(one.root, '.git'))).toBe(false)
    } finally {
      rmSync(outside, { recursive: true, force: true })
    }
  })

  it('refuses a checkpoint whose record is not named by an object id', async () => {
    const files = tree(['100644', 'a.txt', object('blob', Buffer.from('hi'))])
    const id = commit(files, 'HEAD:secret')
    await one.workspace.readBundle(bundle(id), [id])
    await expect(one.restore(id)).rejects.toThrow(/not made by Waymark/)
  })
})
