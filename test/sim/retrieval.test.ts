import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ask } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'
import { rounds } from '../support/soak.ts'

/** Files are added, removed and changed in every way; a snippet must always match the current file. */
type Step =
  | { type: 'tool'; file: number; word: number }
  | { type: 'edit'; file: number; word: number }
  | { type: 'delete'; file: number }
  | { type: 'rename'; file: number }
  | { type: 'restore'; which: number }
  | { type: 'reset' }
  | { type: 'approve' }

const nat = fc.nat(1000)
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ type: fc.constant('tool' as const), file: nat, word: nat }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('edit' as const), file: nat, word: nat }) },
  fc.record({ type: fc.constant('delete' as const), file: nat }),
  fc.record({ type: fc.constant('rename' as const), file: nat }),
  fc.record({ type: fc.constant('restore' as const), which: nat }),
  fc.record({ type: fc.constant('reset' as const) }),
  fc.record({ type: fc.constant('approve' as const) }),
)

let project: string
let server: TestServer
beforeAll(async () => {
  project = mkdtempSync(join(tmpdir(), 'waymark-retrieval-'))
  server = await startTestServer({ project, embedder: 'none' })
})
afterAll(async () => {
  await server.close()
  rmSync(project, { recursive: true, force: true })
})

/** Without the data folder, in which the server creates and deletes files meanwhile. */
const files = () =>
  readdirSync(project, { withFileTypes: true })
    .filter((entry) => entry.name !== '.waymark')
    .flatMap((entry) => (entry.isDirectory() ? below(entry.name) : [entry.name]))
    .toSorted()
const below = (folder: string) =>
  readdirSync(join(project, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(project, join(entry.parentPath, entry.name)))

/** All of the same length, so that a change shows neither in the size nor, within a moment, in the time. */
const words = ['harbour', 'lantern', 'thicket', 'granite', 'meadows']
const textOf = (file: number, word: number) =>
  `The ${words[word % words.length]} of file ${file % 5}\nsecond line\n`

async function play(id: string, one: Step): Promise<void> {
  if (one.type === 'tool') {
    const path = `f${one.file % 5}.txt`
    const content = textOf(one.file, one.word)
    await ask(server, id, `!write_to_file ${JSON.stringify({ path, content })}`)
    return
  }
  if (one.type === 'restore') {
    const { items } = await server.client.checkpoints(id, { limit: 100 })
    const checkpoint = items[one.which % items.length]
    if (checkpoint) await server.client.restore(id, { checkpoint_id: checkpoint.checkpoint_id })
    return
  }
  if (one.type === 'reset') return void (await server.client.reset(id))
  if (one.type === 'approve') return void (await server.client.approve(id))
  const there = files()
  const path = there[one.file % Math.max(1, there.length)]
  if (path === undefined) return
  if (one.type === 'edit') writeFileSync(join(project, path), textOf(one.file, one.word))
  if (one.type === 'delete') rmSync(join(project, path))
  if (one.type === 'rename') {
    mkdirSync(join(project, 'moved'), { recursive: true })
    renameSync(join(project, path), join(project, 'moved', `m${one.file % 3}.txt`))
  }
}

it('[C7] sends only snippets that match the current files', { timeout: 1_200_000 }, async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 10 }), async (steps) => {
    for (const path of files()) rmSync(join(project, path))
    const { id } = await server.client.createConversation()
    let foundHere = 0
    for (const one of [{ type: 'tool', file: 0, word: 0 } satisfies Step, ...steps]) {
      await play(id, one)
      await ask(server, id, `where are the ${words.join(', ')}?`)
      const { items } = await server.client.responses(id, { limit: 1 })
      const { parts, request } = await server.client.response(id, items[0]?.response_id ?? '')
      for (const { origin, sent } of parts) {
        if (origin.type !== 'chunk' || !sent) continue
        foundHere++
        const { path = '', start_line = 0, end_line = 0 } = origin
        const lines = readFileSync(join(project, path), 'utf8')
          .split('\n')
          .slice(start_line - 1, end_line)
        expect(JSON.parse(request).input.map((item: { content: unknown }) => item.content)).toContain(
          `<snippet path="${path}" lines="${start_line}-${end_line}">\n${lines.join('\n')}\n</snippet>`,
        )
      }
    }
    expect(foundHere).toBeGreaterThan(0)
  })
  await fc.assert(property, { numRuns: rounds(8, 150) })
})
