import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { framesOf } from '../support/runs.ts'
import { type ServerProcess, startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'
import { dataIn } from '../support/state.ts'

const FILES = ['a.txt', 'b.txt', 'c.txt']
const byText = (a: unknown, b: unknown) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)
/** Kills the server this many milliseconds after the request. */
const killedAfter = fc.option(fc.nat(60))
const step = fc.record({
  do: fc.constantFrom(
    'delete',
    'undelete',
    'rename',
    'mode',
    'restore',
    'reset',
    'approve',
    'fork',
    'remove',
    'memory',
    'adopt',
  ),
  which: fc.nat(1000),
  killedAfter,
})
const kills = fc.array(killedAfter, { maxLength: 6 })

/** A refusal of a message that is deleted, or not deleted, is no operation. */
function expectGone(error: { code?: string }): void {
  if (!['message_not_deleted', 'message_not_found'].includes(error.code ?? '')) throw error
}

describe('undo and redo', () => {
  let project: string
  let server: ServerProcess
  let id: string

  beforeEach(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-undo-'))
    server = await startServerProcess(project)
  })
  afterEach(async () => {
    await server.kill()
    rmSync(project, { recursive: true, force: true })
  })

  async function restart(): Promise<void> {
    await server.kill()
    server = await startServerProcess(project)
    await settled()
  }

  /** Waits until the server has finished, in the background, a change of files that was killed. */
  async function settled(): Promise<void> {
    const database = new Database(join(dataIn(project), 'waymark.db'), { readonly: true })
    const pending = database.prepare('select count(*) as pending from workspaces where change_id is not null')
    try {
      await expect.poll(() => pending.get(), { timeout: 30_000, interval: 20 }).toEqual({ pending: 0 })
    } finally {
      database.close()
    }
  }

  /** Carries the request out, or kills the server in the middle of it. */
  async function attempt<T>(request: () => Promise<T>, killedAfter: number | null): Promise<T | null> {
    if (killedAfter === null) return await request()
    const unanswered = request().catch(() => null)
    await setTimeout(killedAfter)
    await restart()
    return await unanswered
  }

  const write = (path: string, content: string) => `!write_to_file ${JSON.stringify({ path, content })}`
  async function say(...lines: string[]): Promise<void> {
    await server.client.sendMessage(id, { content: lines.join('\n') })
    await expect
      .poll(() => server.client.queue(id), { timeout: 20_000, interval: 20 })
      .toMatchObject({ active: null, items: [] })
  }

  /** A conversation with three messages, each of which has changed files, and with an approval. */
  async function begin(): Promise<void> {
    for (const file of FILES) writeFileSync(join(project, file), `${file}\n`)
    id = (await server.client.createConversation()).id
    await say('one', write('a.txt', 'one\n'))
    await server.client.approve(id, {})
    await say('two', write('b.txt', 'two\n'))
    await say('three', write('c.txt', 'three\n'), write('d.txt', 'three\n'))
  }

  /** Every line, its settings, and every file. */
  async function state(): Promise<unknown> {
    const { client } = server
    const conversations = []
    for (const one of (await client.listConversations({ limit: 100 })).items) {
      const { items } = await client.messages(one.id)
      const said = items.map(({ message_id, content }) => [message_id, content])
      conversations.push([one.id, one.title, one.is_titled, one.mode, one.memory, said])
    }
    const files = readdirSync(project, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => [name, readFileSync(join(project, name), 'utf8')])
    const gone = await client.listConversations({ limit: 1 })
    const [first] = gone.items
    const work = first ? await client.session(first.id) : null
    return {
      conversations: conversations.sort(byText),
      files: files.sort(byText),
      unapproved: work?.changed_files.map(({ path }) => path),
    }
  }

  /** Carries out one operation; a refusal, for example of a deleted conversation, is no operation. */
  async function perform(
    { do: what, which }: { do: string; which: number },
    deleted: string[],
  ): Promise<void> {
    const { client } = server
    const { items: messages } = await client.messages(id)
    const questions = messages.filter(({ role }) => role === 'user')
    const question = questions[which % Math.max(questions.length, 1)]
    const { items: checkpoints } = await client.checkpoints(id, { limit: 100 })
    switch (what) {
      case 'delete':
        if (!question) return
        deleted.push(question.message_id)
        await client.deleteMessage(id, question.message_id)
        return
      case 'undelete': {
        const message_id = deleted.pop()
        if (message_id !== undefined) await client.undelete(id, { message_id })
        return
      }
      case 'rename':
        await client.changeConversation(id, { title: `title ${which}` })
        return
      case 'mode':
        await client.changeConversation(id, { mode: which % 2 === 0 ? 'edit' : 'read_only' })
        return
      case 'memory':
        await client.changeConversation(id, { memory: { strategy: which % 2 === 0 ? 'trim' : 'summarize' } })
        return
      case 'restore':
        await client.restore(id, {
          checkpoint_id: checkpoints[which % checkpoints.length]?.checkpoint_id ?? '',
        })
        return
      case 'reset':
        await client.reset(id, {})
        return
      case 'approve':
        await client.approve(id, {})
        return
      case 'fork': {
        const files = (['keep', 'restore', 'copy'] as const)[which % 3]
        await client.fork(id, {
          files,
          ...(question && which % 2 === 0 ? { message_id: question.message_id } : {}),
        })
        return
      }
      case 'remove': {
        const { id: fork } = await client.fork(id, {})
        await client.deleteConversation(fork)
        return
      }
      case 'adopt': {
        const { id: fork } = await client.fork(id, { files: 'copy' })
        writeFileSync(join(dataIn(project), 'workspaces', fork, 'adopted.txt'), `${which}\n`)
        await client.adopt(id, { from: fork })
      }
    }
  }

  async function isUndone(operation: number): Promise<boolean> {
    const { items } = await server.client.operations({ limit: 100 })
    return items.find((one) => one.operation === operation)?.is_undone === true
  }

  it('return every line and file to the start, and back to the end, across kills at any moment', {
    timeout: 3_600_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 6 }),
        kills,
        async (steps, undosKilledAfter) => {
          await begin()
          const start = await state()
          const first = (await server.client.operations({ limit: 1 })).items[0]?.operation ?? 0
          const deleted: string[] = []
          for (const one of steps) {
            await attempt(() => perform(one, deleted), one.killedAfter).catch(expectGone)
          }
          const end = await state()
          const { items } = await server.client.operations({ limit: 100 })
          const own = items.filter(({ operation }) => operation > first)
          for (const [n, { operation, problem }] of own.entries()) {
            expect(problem).toBeNull()
            await attempt(() => server.client.undo({}), undosKilledAfter[n] ?? null)
            if (await isUndone(operation)) continue
            // The server may be finishing it, since it had begun.
            await server.client.undo({ operation }).catch((error: { code?: string }) => {
              if (error.code !== 'nothing_to_undo') throw error
            })
            expect(await isUndone(operation)).toBe(true)
          }
          expect(await state()).toEqual(start)
          await restart()
          for (const { operation } of own.toReversed()) {
            expect(await server.client.redo({})).toMatchObject({ operation, is_undone: false })
          }
          expect(await state()).toEqual(end)
          await expect(server.client.redo({})).rejects.toMatchObject({ code: 'nothing_to_undo' })
          // Undoing an undo again leads back once more.
          for (const _ of own) await server.client.undo({})
          expect(await state()).toEqual(start)
          for (const { id: other } of (await server.client.listConversations({ limit: 100 })).items)
            await server.client.deleteConversation(other)
        },
      ),
      { numRuns: rounds(4, 100) },
    )
  })

  it('never block one another, in whatever order they are undone and redone', {
    timeout: 3_600_000,
  }, async () => {
    const move = fc.record({ what: fc.constantFrom('undo', 'redo'), which: fc.option(fc.nat(10)) })
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 2, maxLength: 6 }),
        fc.array(move, { maxLength: 8 }),
        async (steps, moves) => {
          await begin()
          const first = (await server.client.operations({ limit: 1 })).items[0]?.operation ?? 0
          const deleted: string[] = []
          for (const one of steps) await perform(one, deleted).catch(expectGone)
          const own = async () => {
            const { items } = await server.client.operations({ limit: 100 })
            return items.filter(({ operation }) => operation > first)
          }
          const all = await own()
          for (const { what, which } of moves) {
            const named = which === null ? undefined : all[which % Math.max(all.length, 1)]
            const body = named === undefined ? {} : { operation: named.operation }
            const moving = what === 'undo' ? server.client.undo(body) : server.client.redo(body)
            await moving.catch((error: { code?: string }) => {
              if (error.code !== 'nothing_to_undo') throw error
            })
          }
          const left = async (isUndone: boolean) =>
            (await own()).filter(({ is_undone }) => is_undone !== isUndone).length
          for (let most = all.length; most > 0 && (await left(true)) > 0; most--) await server.client.undo({})
          expect(await left(true)).toBe(0)
          for (let most = all.length; most > 0 && (await left(false)) > 0; most--)
            await server.client.redo({})
          expect(await left(false)).toBe(0)
          for (const { id: other } of (await server.client.listConversations({ limit: 100 })).items)
            await server.client.deleteConversation(other)
        },
      ),
      { numRuns: rounds(3, 100) },
    )
  })

  it('return the files of a restore that was killed midway and finished by the next start', {
    timeout: 600_000,
  }, async () => {
    await begin()
    const names = Array.from({ length: 1000 }, (_, n) => `file-${n}.txt`)
    for (const name of names) writeFileSync(join(project, name), 'before\n')
    await say('many')
    const [target] = (await server.client.checkpoints(id)).items
    for (const name of names) writeFileSync(join(project, name), 'after\n')
    await say('changed')
    const files = () => names.map((name) => readFileSync(join(project, name), 'utf8'))
    for (let round = 0; round < rounds(2, 40); round++) {
      const restoring = server.client.restore(id, { checkpoint_id: target?.checkpoint_id ?? '' })
      restoring.catch(() => {})
      // In the middle of it, as far as that can be hit.
      while (statSync(join(project, 'file-0.txt'), { throwIfNoEntry: false })?.size !== 'before\n'.length)
        await setTimeout(1)
      await restart()
      expect(new Set(files())).toEqual(new Set(['before\n']))
      const [finished] = (await server.client.operations({ limit: 1 })).items
      expect(finished).toMatchObject({ kind: 'files.restored', is_undone: false })
      await server.client.undo({})
      expect(new Set(files())).toEqual(new Set(['after\n']))
    }
  })

  it('undo a deletion that an undeletion has already undone', async () => {
    await begin()
    const [one, two] = (await server.client.messages(id)).items.filter(({ role }) => role === 'user')
    await server.client.deleteMessage(id, one?.message_id ?? '')
    await server.client.undelete(id, { message_id: one?.message_id ?? '' })
    await server.client.deleteMessage(id, two?.message_id ?? '')
    const before = await state()
    const { items } = await server.client.operations({ limit: 3 })
    expect(items.map(({ problem }) => problem)).toEqual([null, null, null])
    const oldest = items[2]?.operation ?? 0
    expect(await server.client.undo({ operation: oldest })).toMatchObject({ is_undone: true })
    expect(await state()).toEqual(before)
  })

  it('undo and redo deletions in any order', async () => {
    await begin()
    const start = await state()
    const [one, two] = (await server.client.messages(id)).items.filter(({ role }) => role === 'user')
    await server.client.deleteMessage(id, two?.message_id ?? '')
    await server.client.deleteMessage(id, one?.message_id ?? '')
    const [second, first] = (await server.client.operations({ limit: 2 })).items
    await server.client.undo({ operation: first?.operation ?? 0 })
    // Both messages are back, so nothing is left to change.
    expect(await server.client.undo({})).toMatchObject({ operation: second?.operation, is_undone: true })
    expect(await state()).toEqual(start)
    expect(await server.client.redo({})).toMatchObject({ operation: second?.operation, is_undone: false })
    expect(await server.client.redo({})).toMatchObject({ operation: first?.operation, is_undone: false })
    expect((await server.client.messages(id)).items).toEqual([])
  })

  it('touch only the files of the operation, and note none that changed nothing', async () => {
    await begin()
    const [newest] = (await server.client.checkpoints(id, {})).items
    const restored = await server.client.restore(id, { checkpoint_id: newest?.checkpoint_id ?? '' })
    const before = (await server.client.operations({})).items.length
    const again = await server.client.restore(id, { checkpoint_id: restored.restored_to })
    expect([again.restored, again.deleted]).toEqual([[], []])
    expect((await server.client.operations({})).items).toHaveLength(before)
    await server.client.reset(id, {})
    await say('later', write('late.txt', 'late\n'))
    writeFileSync(join(project, 'mine.txt'), 'mine\n')
    await server.client.undo({})
    expect(readdirSync(project)).toEqual(expect.arrayContaining(['late.txt', 'mine.txt']))
    expect(readFileSync(join(project, 'b.txt'), 'utf8')).toBe('two\n')
    await say('more', write('more.txt', 'more\n'))
    await server.client.redo({})
    expect(readdirSync(project)).toEqual(expect.arrayContaining(['late.txt', 'mine.txt', 'more.txt']))
    expect(readFileSync(join(project, 'b.txt'), 'utf8')).toBe('b.txt\n')
  })

  it('undo a different operation for each concurrent request', async () => {
    await begin()
    await server.client.changeConversation(id, { title: 'one' })
    await server.client.changeConversation(id, { title: 'two' })
    const undone = await Promise.all([server.client.undo({}), server.client.undo({})])
    expect(new Set(undone.map(({ operation }) => operation)).size).toBe(2)
  })

  it('redo the operation that was undone last, unless a new one has followed', async () => {
    await begin()
    for (const title of ['one', 'two']) await server.client.changeConversation(id, { title })
    const [two] = (await server.client.operations({})).items
    await server.client.undo({})
    await server.client.undo({})
    await server.client.changeConversation(id, { title: 'three' })
    const three = await server.client.undo({})
    expect(await server.client.redo({})).toMatchObject({ operation: three.operation })
    await expect(server.client.redo({})).rejects.toMatchObject({ code: 'nothing_to_undo' })
    // By its number, an earlier one can still be redone.
    expect(await server.client.redo({ operation: two?.operation ?? 0 })).toMatchObject({ is_undone: false })
  })

  it('leave alone what a later operation has changed', async () => {
    await begin()
    await server.client.changeConversation(id, { title: 'one', mode: 'read_only' })
    const [first] = (await server.client.operations({})).items
    await server.client.changeConversation(id, { title: 'two' })
    await server.client.undo({ operation: first?.operation ?? 0 })
    expect(await server.client.conversation(id)).toMatchObject({ title: 'two', mode: 'ask' })
    await server.client.redo({ operation: first?.operation ?? 0 })
    expect(await server.client.conversation(id)).toMatchObject({ title: 'two', mode: 'read_only' })
  })

  it('redo a deletion with the messages that were sent after it, and return queued ones', async () => {
    await begin()
    const said = async () => {
      const { items } = await server.client.messages(id)
      return items.filter(({ role }) => role === 'user').map(({ content }) => content.split('\n')[0])
    }
    const [, second] = (await server.client.messages(id)).items.filter(({ role }) => role === 'user')
    await server.client.deleteMessage(id, second?.message_id ?? '')
    await say('instead')
    await server.client.sendMessage(id, { content: '!wait 20' })
    await server.client.sendMessage(id, { content: 'queued' })
    const { cleared } = await server.client.undo({})
    expect(cleared.map(({ content }) => content)).toContain('queued')
    expect(await said()).toEqual(['one', 'two', 'three'])
    await server.client.redo({})
    expect((await said()).slice(0, 2)).toEqual(['one', 'instead'])
    await server.client.undo({})
    expect(await said()).toEqual(['one', 'two', 'three'])
  })

  it('refuse what is already undone, and say what can no longer be undone', async () => {
    await begin()
    await expect(server.client.undo({ operation: 99 })).rejects.toMatchObject({ code: 'nothing_to_undo' })
    const { items } = await server.client.messages(id)
    await server.client.changeConversation(id, { title: 'Mine' })
    await server.client.deleteMessage(id, items[0]?.message_id ?? '')
    const [deletion, renaming] = (await server.client.operations({})).items
    expect(deletion).toMatchObject({
      kind: 'message.deleted',
      problem: null,
      summary: 'Deleted a message and all after it',
    })
    expect(renaming).toMatchObject({ summary: 'Renamed to “Mine”' })
    // An operation may be undone out of order.
    await server.client.undo({ operation: renaming?.operation ?? 0 })
    expect((await server.client.conversation(id)).is_titled).toBe(false)
    await expect(server.client.undo({ operation: renaming?.operation ?? 0 })).rejects.toMatchObject({
      code: 'nothing_to_undo',
    })
    // The retention time is over.
    await server.client.collect({ now: true })
    const [expired] = (await server.client.operations({})).items
    expect(expired?.problem).toMatch(/expired/)
    await expect(server.client.undo({})).rejects.toThrow(
      /^Operation \d+ \(Deleted a message and all after it\) can't be undone: .* expired .* give its number\.$/,
    )
    expect((await framesOf(server.client, id)).length).toBeGreaterThan(0)
  })
})
