import {
  chmod,
  mkdir,
  mkdtemp,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { editFileIn, openTestWorkspace, type TestWorkspace } from '../../../test/support/workspace.ts'
import { type ConfinedFolder, openConfinedFolder } from './confined-folder.ts'
import { fileTools } from './files.ts'
import type { Tool } from './tool.ts'
import { walkTools } from './walk.ts'

const call = {
  tenant: 'default',
  conversationId: 'conv_x' as const,
  grant: { network: false, outside: false },
  signal: new AbortController().signal,
  show() {},
  async confirm() {},
}

let base: string
let one: TestWorkspace
let root: string
let outside: string
let files: ConfinedFolder
let tools: Map<string, Tool>

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'waymark-tools-'))
  root = join(base, 'project')
  outside = join(base, 'outside')
  for (const folder of [root, outside, join(root, '.git'), join(root, '.waymark'), join(root, 'src')]) {
    await mkdir(folder)
  }
  await writeFile(join(outside, 'secret.txt'), 'secret')
  await writeFile(join(root, '.waymark', 'token'), 'token')
  await writeFile(join(root, '.git', 'config'), 'config')
  await writeFile(join(root, 'src', 'a.txt'), 'inside')
  one = openTestWorkspace({ root })
  files = await openConfinedFolder({
    root,
    dataDir: join(root, '.waymark'),
    editFile: editFileIn(one.workspace),
  })
  tools = new Map([...fileTools(files), ...walkTools(files)].map((tool) => [tool.name, tool]))
})
afterEach(async () => {
  await one.close()
  await rm(base, { recursive: true, force: true })
})

const run = (name: string, args: unknown) => tools.get(name)?.run(args, call) as Promise<{ output: string }>

/** One call with this path for every tool that takes a path. */
const attempts = (path: string) => [
  ['read_file', { path }],
  ['write_to_file', { path, content: 'owned' }],
  ['replace_in_file', { path, search: 's', replace: 'x' }],
  ['delete_file', { path }],
  ['list_files', { path }],
  ['search_files', { path, pattern: 'secret' }],
]

async function refusesAll(path: string, names?: string[]): Promise<void> {
  for (const [name, args] of attempts(path)) {
    if (names && !names.includes(name as string)) continue
    await expect(run(name as string, args), `${name as string} ${path}`).rejects.toThrow(
      /Refused|no such file|not a folder|not a file|is not allowed|NUL/,
    )
  }
  expect(await readFile(join(outside, 'secret.txt'), 'utf8')).toBe('secret')
  await expect(stat(join(outside, 'new.txt'))).rejects.toThrow()
}

describe('path confinement', () => {
  it.each([
    '../outside/secret.txt',
    'src/../../outside/secret.txt',
    '..',
    './../outside',
    'src/..\\..\\outside',
    '/etc/passwd',
    '/proc/self/environ',
    'a\u0000b',
    'src/a.txt\u0000.md',
  ])('refuses %j', (path) => refusesAll(path))

  it('refuses an absolute path outside, and accepts one inside', async () => {
    await refusesAll(join(outside, 'secret.txt'))
    await refusesAll(`${root}-other/file`)
    expect((await run('read_file', { path: join(root, 'src/a.txt') })).output).toBe('inside')
  })

  it('refuses a link that leads outside, as the file or as a parent folder', async () => {
    await symlink(join(outside, 'secret.txt'), join(root, 'link.txt'))
    await symlink(outside, join(root, 'linked'))
    await symlink('linked', join(root, 'twice'))
    await refusesAll('link.txt', ['read_file', 'write_to_file', 'replace_in_file'])
    for (const folder of ['linked', 'twice']) {
      await refusesAll(folder, ['list_files', 'search_files', 'read_file'])
      await refusesAll(`${folder}/secret.txt`)
      await refusesAll(`${folder}/new.txt`, ['write_to_file'])
    }
  })

  it('deletes a link that leads outside, never its target', async () => {
    await symlink(join(outside, 'secret.txt'), join(root, 'link.txt'))
    await run('delete_file', { path: 'link.txt' })
    expect(await readFile(join(outside, 'secret.txt'), 'utf8')).toBe('secret')
    await expect(readlink(join(root, 'link.txt'))).rejects.toThrow()
  })

  it('replaces a dangling link that leads outside, and does not follow it', async () => {
    await symlink(join(outside, 'new.txt'), join(root, 'dangling.txt'))
    await run('write_to_file', { path: 'dangling.txt', content: 'mine' })
    await expect(stat(join(outside, 'new.txt'))).rejects.toThrow()
    expect(await readFile(join(root, 'dangling.txt'), 'utf8')).toBe('mine')
  })

  it('follows a link that stays inside', async () => {
    await symlink('src', join(root, 'inner'))
    expect((await run('read_file', { path: 'inner/a.txt' })).output).toBe('inside')
    await run('write_to_file', { path: 'inner/b.txt', content: 'b' })
    expect(await readFile(join(root, 'src/b.txt'), 'utf8')).toBe('b')
  })

  it('never follows a link made between check and use', async () => {
    // A folder that alternates with a link to the outside, while tools read and write below it.
    const real = join(root, 'flip')
    const aside = join(root, 'real')
    await mkdir(real)
    await writeFile(join(real, 'secret.txt'), 'inside')
    let isOver = false
    const replaceBy = async (act: () => Promise<void>): Promise<void> => {
      // Retry, because a tool may be writing into it.
      await rm(real, { recursive: true, force: true, maxRetries: 10, retryDelay: 1 })
      await act().catch(() => replaceBy(act))
    }
    const flipping = (async () => {
      while (!isOver) {
        await rename(real, aside)
        // A tool may have recreated the folder in between.
        await replaceBy(() => symlink(outside, real))
        await replaceBy(() => rename(aside, real))
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 3))
      }
    })()
    let reads = 0
    for (let round = 0; round < 1500; round++) {
      const [read] = await Promise.allSettled([
        run('read_file', { path: 'flip/secret.txt' }),
        run('write_to_file', { path: 'flip/new.txt', content: 'owned' }),
        run('delete_file', { path: 'flip/secret2.txt' }),
      ])
      if (read.status === 'fulfilled') {
        expect(read.value.output).toBe('inside')
        reads++
      }
    }
    isOver = true
    await flipping
    expect(reads).toBeGreaterThan(0)
    await expect(stat(join(outside, 'new.txt'))).rejects.toThrow()
    expect(await readFile(join(outside, 'secret.txt'), 'utf8')).toBe('secret')
  })

  it.each([
    '.git/config',
    '.git/hooks/pre-commit',
    '.GIT/config',
    'src/.git/config',
    '.git',
    '.git./config',
    '.g\u200cit/x',
  ])('does not write %j', async (path) => {
    await refusesAll(path, ['write_to_file', 'replace_in_file', 'delete_file'])
    expect(await readFile(join(root, '.git', 'config'), 'utf8')).toBe('config')
  })

  it.each(['.waymark/token', '.waymark', 'src/.waymark/x', '.Waymark/token'])(
    'neither reads nor writes %j',
    (path) => refusesAll(path),
  )

  it('protects .git and .waymark from access through a link', async () => {
    await symlink('.git', join(root, 'g'))
    await symlink('.waymark/token', join(root, 't'))
    await refusesAll('g/config', ['write_to_file', 'replace_in_file', 'delete_file'])
    await refusesAll('t', ['read_file', 'write_to_file', 'replace_in_file'])
  })

  it('protects the data folder when it has another name', async () => {
    await mkdir(join(root, 'data'))
    await writeFile(join(root, 'data', 'token'), 'token')
    files = await openConfinedFolder({
      root,
      dataDir: join(root, 'data'),
      editFile: editFileIn(one.workspace),
    })
    tools = new Map([...fileTools(files), ...walkTools(files)].map((tool) => [tool.name, tool]))
    await refusesAll('data/token', ['read_file', 'write_to_file', 'delete_file'])
    expect((await run('search_files', { pattern: 'token' })).output).toBe('No matches.')
    expect((await run('list_files', { recursive: true })).output).not.toContain('data/token')
  })

  it('refuses to read or write a folder as a file', async () => {
    await expect(run('read_file', { path: 'src' })).rejects.toThrow()
    await expect(run('write_to_file', { path: 'src', content: '' })).rejects.toThrow()
    await expect(run('write_to_file', { path: '.', content: '' })).rejects.toThrow()
  })
})

describe('file tools', () => {
  it('overwrite a file and keep its mode, and create missing folders', async () => {
    await run('write_to_file', { path: 'new/deep/x.sh', content: 'one' })
    await chmod(join(root, 'new/deep/x.sh'), 0o755)
    await run('write_to_file', { path: 'new/deep/x.sh', content: 'two' })
    expect((await stat(join(root, 'new/deep/x.sh'))).mode & 0o777).toBe(0o755)
    expect(await readFile(join(root, 'new/deep/x.sh'), 'utf8')).toBe('two')
  })

  it('leave the file unchanged, and no other file, when an edit fails', async () => {
    await writeFile(join(root, 'bytes.bin'), Buffer.from([0xff, 0xfe, 0x41]))
    await expect(run('replace_in_file', { path: 'bytes.bin', search: 'A', replace: 'B' })).rejects.toThrow(
      /UTF-8/,
    )
    await expect(run('replace_in_file', { path: 'src/a.txt', search: 'none', replace: '' })).rejects.toThrow(
      /not in/,
    )
    await writeFile(join(root, 'src/b.txt'), 'x x')
    await expect(run('replace_in_file', { path: 'src/b.txt', search: 'x', replace: '' })).rejects.toThrow(
      /2 times/,
    )
    expect(await readFile(join(root, 'src/b.txt'), 'utf8')).toBe('x x')
    expect(await readFile(join(root, 'bytes.bin'))).toEqual(Buffer.from([0xff, 0xfe, 0x41]))
    expect((await run('list_files', { path: '.', recursive: true })).output.split('\n')).toEqual([
      '.git/',
      '.waymark/',
      'bytes.bin',
      'src/',
      'src/a.txt',
      'src/b.txt',
    ])
  })

  it('[W10] refuse to edit a file that has changed since the model read it', async () => {
    await run('read_file', { path: 'src/a.txt' })
    await writeFile(join(root, 'src/a.txt'), 'inside, and saved by a person')
    const replace = { path: 'src/a.txt', search: 'inside', replace: 'outside' }
    await expect(run('replace_in_file', replace)).rejects.toThrow(/has changed since it was read/)
    expect(await readFile(join(root, 'src/a.txt'), 'utf8')).toBe('inside, and saved by a person')
    await run('read_file', { path: 'src/a.txt' })
    await run('replace_in_file', replace)
    expect(await readFile(join(root, 'src/a.txt'), 'utf8')).toBe('outside, and saved by a person')
    // The model knows what its own tool wrote.
    await run('replace_in_file', { ...replace, search: 'outside', replace: 'inside' })
  })

  it('search by pattern and glob', async () => {
    for (const name of ['one.ts', 'two.ts', 'three.md'])
      await writeFile(join(root, 'src', name), `${name}\nneedle 1\n`)
    expect((await run('search_files', { pattern: 'needle \\d', glob: '*.ts' })).output).toBe(
      'src/one.ts:2: needle 1\nsrc/two.ts:2: needle 1',
    )
    expect((await run('search_files', { pattern: 'needle', glob: 'src/**/*.md' })).output).toBe(
      'src/three.md:2: needle 1',
    )
    expect((await run('search_files', { pattern: 'nowhere' })).output).toBe('No matches.')
    await expect(run('search_files', { pattern: '(' })).rejects.toThrow(/regular expression/)
  })

  it('read a long file in parts', async () => {
    await writeFile(
      join(root, 'long.txt'),
      Array.from({ length: 5000 }, (_, index) => `line ${index + 1}`).join('\n'),
    )
    const first = (await run('read_file', { path: 'long.txt' })).output
    expect(first).toContain('line 2000\n[lines 1 to 2000 of 5000]')
    const part = (await run('read_file', { path: 'long.txt', start_line: 4999 })).output
    expect(part).toBe('line 4999\nline 5000\n[lines 4999 to 5000 of 5000]')
  })

  it('abort a search that would never end', async () => {
    const stop = new AbortController()
    await writeFile(join(root, 'trap.txt'), `${'a'.repeat(60)}!`)
    const searching = tools.get('search_files')?.run({ pattern: '^(a+)+$' }, { ...call, signal: stop.signal })
    setTimeout(() => stop.abort(new Error('stopped')), 300)
    await expect(searching).rejects.toThrow('stopped')
  })
})
