// Runs every bench, each in a process of its own, and prints one table: `npm run bench`, `npm run bench -- replay`,
// `npm run bench -- --write` to put it into docs/bench.md; of some, `npm run bench -- replay --write`, only their rows change.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Figure } from './support/figure.ts'

const folder = fileURLToPath(new URL('.', import.meta.url))
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const names = readdirSync(folder)
  .filter((name) => name.endsWith('.ts') && name !== 'run.ts')
  .map((name) => name.replace(/\.ts$/, ''))
  .filter((name) => wanted.length === 0 || wanted.includes(name))

const figures = names.flatMap((name) => {
  console.error(`${name} …`)
  const { stdout, status } = spawnSync(process.execPath, [join(folder, `${name}.ts`)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (status !== 0) throw new Error(`the bench ${name} failed`)
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '[]') as Figure[]
})

const rows = figures.map(({ figure, ours, peer, ratio, wanted: demand, met }) => {
  const mark = met === null ? '' : met ? 'met' : '**not met**'
  return `| ${figure} | ${ours} | ${peer} | ${ratio} | ${demand} | ${mark} |`
})
const tableOf = (lines: readonly string[]) =>
  ['| figure | Waymark | peer | ratio | wanted | |', '| --- | --- | --- | --- | --- | --- |', ...lines].join(
    '\n',
  )
console.log(tableOf(rows))

/** Of benches that were not run, what the document says. */
function withOthers(): string[] {
  if (wanted.length === 0) return rows
  const written = readFileSync(join(folder, '../docs/bench.md'), 'utf8').split('\n')
  const figureOf = (row: string) => row.split(' | ')[0] ?? ''
  const renewed = new Set(rows.map(figureOf))
  const before = written.filter((line) => /^\| (?!figure|---)/.test(line) && !renewed.has(figureOf(line)))
  return [...before, ...rows]
}

if (process.argv.includes('--write')) {
  const text = `# Figures

Made by \`npm run bench -- --write\`, on a machine with ${cpus().length} cores, Node ${process.version}. Look at the ratios: both sides ran on
the same machine in the same run. Absolute times differ from machine to machine, and on a busy one from run to run.

${tableOf(withOthers())}
`
  writeFileSync(join(folder, '../docs/bench.md'), text)
}
