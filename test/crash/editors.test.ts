import { createHash, randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type ServerProcess, startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'
import { dataIn } from '../support/state.ts'
import { gitIn } from '../support/workspace.ts'

/** Files that both the person and the agent write. */
const FILES = ['a.txt', 'src/b.txt', 'src/deep/c.txt', 'd.bin']

let project: string
let server: ServerProcess
beforeEach(() => {
  project = mkdtempSync(join(tmpdir(), 'waymark-editors-'))
})
afterEach(async () => {
  await server.kill()
  rmSync(project, { recursive: true, force: true })
})

/** A git blob id, computed here so that the oracle shares no code with the implementation. */
function blobOf(bytes: Buffer): string {
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')
}

/**
 * A person editing one file, saving in every way editors do. The version saved last must survive; versions that the
 * person overwrote may be lost.
 */
function createEditor(path: string) {
  const file = join(project, path)
  /** Versions that must survive: the current one, and those replaced by anyone but this editor. */
  const owed = new Map<string, string>()
  let last: string | null = null
  let isOwn = true
  let count = 0
  /** Kept open across saves, like a log or a database, but no longer than the server rechecks replaced files. */
  let held = -1
  let heldSince = 0

  function contentOf(descriptor: number): Buffer {
    const bytes = Buffer.alloc(fstatSync(descriptor).size)
    return bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, 0))
  }

  const styles: Record<string, (text: string) => Buffer> = {
    'in place': (text) => {
      const descriptor = openSync(file, 'w+')
      writeSync(descriptor, text)
      return finish(descriptor)
    },
    append: (text) => {
      const descriptor = openSync(file, 'a+')
      writeSync(descriptor, text)
      return finish(descriptor)
    },
    'r+': (text) => {
      const descriptor = openSync(file, existsSync(file) ? 'r+' : 'w+')
      writeSync(descriptor, text, 0)
      return finish(descriptor)
    },
    rename: (text) => {
      const aside = `${file}.saving`
      const descriptor = openSync(aside, 'w+')
      writeSync(descriptor, text)
      const bytes = finish(descriptor)
      renameSync(aside, file)
      return bytes
    },
    held: (text) => {
      if (held >= 0 && heldSince < performance.now() - 500) {
        closeSync(held)
        held = -1
      }
      if (held < 0) {
        held = openSync(file, 'a+')
        heldSince = performance.now()
      }
      writeSync(held, text)
      return contentOf(held)
    },
    'truncate and write': (text) => {
      const descriptor = openSync(file, existsSync(file) ? 'r+' : 'w+')
      ftruncateSync(descriptor, 0)
      writeSync(descriptor, text, 0)
      return finish(descriptor)
    },
  }

  function finish(descriptor: number): Buffer {
    const bytes = contentOf(descriptor)
    closeSync(descriptor)
    return bytes
  }

  return {
    path,
    owed: () => owed,
    save(): void {
      mkdirSync(dirname(file), { recursive: true })
      const names = Object.keys(styles)
      const style = names[Math.floor(Math.random() * names.length)] ?? ''
      const text = `${path} save ${++count} ${style} ${randomBytes(8).toString('hex')}\n`
      const saved = blobOf(styles[style]?.(text) ?? Buffer.alloc(0))
      // Saving in another style closes the held descriptor: the person edits one file.
      if (style !== 'held' && held >= 0) {
        closeSync(held)
        held = -1
      }
      // The person overwrote their own version.
      if (last !== null && isOwn) owed.delete(last)
      owed.set(saved, `${path} ${style} ${count}`)
      last = saved
      isOwn = true
    },
    /** Called before each save: records whether the file still holds the person's version. */
    look(): void {
      const now = existsSync(file) && lstatSync(file).isFile() ? blobOf(readFileSync(file)) : null
      isOwn = now === last || held >= 0
    },
    close(): void {
      if (held >= 0) closeSync(held)
    },
  }
}

type Editor = ReturnType<typeof createEditor>

const pick = <T>(from: readonly T[]): T => from[Math.floor(Math.random() * from.length)] as T

/** A message that makes the agent change the same files, with pauses in which the person saves. */
function message(): string {
  const calls = Array.from({ length: 4 }, () => {
    const path = pick(FILES)
    return pick([
      `!write_to_file ${JSON.stringify({ path, content: `agent ${randomBytes(4).toString('hex')}\n` })}`,
      `!delete_file ${JSON.stringify({ path })}`,
      `!run_command ${JSON.stringify({ command: 'sleep 0.05' })}`,
    ])
  })
  return calls.join('\n')
}

async function untilIdle(id: string): Promise<void> {
  await expect
    .poll(() => server.client.queue(id), { timeout: 60_000, interval: 30 })
    .toMatchObject({ active: null, items: [] })
}

/** Cached contents: checkpoints never change. */
const inCheckpoints = new Map<string, string[]>()

/** Every version in the folder, in a listed checkpoint, or among the rescued files. */
async function kept(id: string): Promise<Set<string>> {
  const found = new Set<string>()
  const walk = (folder: string) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name)
      // Skip Waymark's own data.
      if (entry.name === '.waymark') continue
      if (entry.isDirectory()) walk(path)
      else if (entry.isFile()) found.add(blobOf(readFileSync(path)))
    }
  }
  walk(project)
  const { rescued } = await server.client.session(id)
  for (const { file } of rescued) found.add(blobOf(readFileSync(join(dataIn(project), file))))
  let cursor: string | undefined
  do {
    const page = await server.client.checkpoints(id, { limit: 200, ...(cursor ? { cursor } : {}) })
    for (const { checkpoint_id } of page.items) {
      if (inCheckpoints.has(checkpoint_id)) continue
      const listed = gitIn(join(dataIn(project), 'store'), 'ls-tree', '-r', checkpoint_id)
      inCheckpoints.set(
        checkpoint_id,
        listed.split('\n').map((line) => line.split(/[ \t]/)[2] ?? ''),
      )
    }
    for (const { checkpoint_id } of page.items) {
      for (const version of inCheckpoints.get(checkpoint_id) ?? []) found.add(version)
    }
    cursor = page.next_cursor ?? undefined
  } while (cursor)
  return found
}

it('[W10] [W4] keeps every version a person saved in the folder, a listed checkpoint or the rescued files', {
  timeout: 10_000_000,
}, async () => {
  const config = { tools: { run_command: 'allow' as const }, gcMinutes: 1000 }
  server = await startServerProcess(project, { config })
  const { id } = await server.client.createConversation()
  const editors = FILES.map(createEditor)
  for (const one of editors) one.save()
  await server.client.session(id)
  const first = (await server.client.checkpoints(id)).items.at(-1)?.checkpoint_id ?? ''
  for (let round = 0; round < rounds(6, 500); round++) {
    let isOver = false
    const saving = editors.map((one) => saveUntil(one, () => isOver))
    const content = message()
    // Retry: an idle connection may be closed just as it is used.
    await server.client.sendMessage(id, { content }).catch(() => server.client.sendMessage(id, { content }))
    const what = pick(['run', 'restore', 'reset', 'kill', 'kill in a restore'])
    if (what === 'kill') await setTimeout(Math.random() * 600)
    else await untilIdle(id)
    if (what === 'restore') await server.client.restore(id, { checkpoint_id: first })
    if (what === 'reset') await server.client.reset(id)
    if (what === 'kill in a restore') {
      void server.client.restore(id, { checkpoint_id: first }).catch(() => {})
      await setTimeout(Math.random() * 80)
    }
    if (what.startsWith('kill')) {
      await server.kill()
      server = await startServerProcess(project, { config })
    }
    isOver = true
    await Promise.all(saving)
    await untilIdle(id)
    // Wait for the server's last check of replaced files.
    await setTimeout(1200)
    const versions = await kept(id)
    for (const one of editors) {
      const lost = [...one.owed()].filter(([version]) => !versions.has(version)).map(([, how]) => how)
      expect(lost, `round ${round}: ${what}`).toEqual([])
      for (const version of [...one.owed().keys()].slice(0, -1)) one.owed().delete(version)
    }
  }
  for (const one of editors) one.close()
})

async function saveUntil(editor: Editor, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await setTimeout(Math.random() * 60)
    try {
      editor.look()
      editor.save()
    } catch (error) {
      // The folder was removed meanwhile, so nothing was saved.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
}
