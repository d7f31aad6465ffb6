// Disk usage of 20 conversations on one project, against one conversation: objects are stored once.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTestServer } from '../test/support/server.ts'
import { report, say, times } from './support/figure.ts'

const CONVERSATIONS = 20
const FILES = 10_000

const project = mkdtempSync(join(tmpdir(), 'waymark-bench-'))
for (let i = 0; i < FILES; i++) {
  const folder = join(project, `module-${Math.floor(i / 50)}`)
  if (i % 50 === 0) mkdirSync(folder)
  const lines = Array.from(
    { length: 60 },
    (_, line) => `export const v${line} = ${(i * 7919 + line * 104_729) % 1_000_003}`,
  )
  writeFileSync(join(folder, `file-${i}.ts`), lines.join('\n'))
}
const server = await startTestServer({ project })
const taken: number[] = []
for (let i = 1; i <= CONVERSATIONS; i++) {
  const { id } = await server.client.createConversation()
  await server.client.session(id)
  await server.client.sendMessage(id, { content: 'hello' })
  while (
    (await server.client.queue(id)).active !== null ||
    (await server.client.queue(id)).items.length > 0
  ) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  taken.push(onDisk())
  if (i === 1 || i === CONVERSATIONS) say(`${i}: ${kilobytes(taken.at(-1) ?? 0)}`)
}
await server.close()
rmSync(project, { recursive: true, force: true })

const [one = 1] = taken
const all = taken.at(-1) ?? 0
report([
  {
    figure: `disk for the checkpoints of ${CONVERSATIONS} conversations on a project of ${FILES.toLocaleString('en')} files; peer: of one`,
    ours: kilobytes(all),
    peer: kilobytes(one),
    ratio: times(all / one),
    wanted: 'at most 1.2×',
    met: all / one <= 1.2,
  },
])

/** Allocated blocks, in kB. */
function onDisk(): number {
  const folders = ['store', 'conversations'].map((name) => join(server.config.dataDir, name))
  const lines = execFileSync('du', ['-sk', ...folders], { encoding: 'utf8' })
    .trim()
    .split('\n')
  return lines.reduce((sum, line) => sum + Number(line.split('\t')[0]), 0)
}

function kilobytes(kb: number): string {
  return `${kb.toLocaleString('en')} kB`
}
