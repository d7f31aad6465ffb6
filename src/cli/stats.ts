import { type Command, InvalidArgumentError } from 'commander'
import type { Stats, Totals } from '../protocol/api/stats.ts'
import { connect } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, count, dim, printable, printJson } from './output.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const MOST = 10

interface StatsFlags extends Record<string, unknown> {
  days: number
  conversation?: string
  json?: boolean
}

export function statsCommand(): Command {
  return commandWith('stats', ['project', 'dataDir', 'url'])
    .description('Count tokens, time, calls and edits by day, conversation, model, agent and tool')
    .option('--days <count>', 'how far back', daysOf, 30)
    .option('-c, --conversation <id>', 'only this conversation')
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
Examples:
  waymark stats
  waymark stats --days 7 --json | jq '.tools[] | select(.failed > 0)'`,
    )
    .action(async (flags: StatsFlags) => {
      const client = await connect(flags)
      const since = new Date(Date.now() - flags.days * DAY_MS).toISOString()
      const of = flags.conversation === undefined ? {} : { conversation_id: flags.conversation }
      const stats = await client.stats({ since, ...of })
      if (flags.json) return printJson(stats)
      print(stats, flags.days)
    })
}

function daysOf(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new InvalidArgumentError('must be a number of days')
  return Number(text)
}

function print(stats: Stats, days: number): void {
  console.log(bold(`The last ${count(days, 'day')}: ${lineOf(stats.totals)}`))
  if (stats.is_partial) console.log('Incomplete: too many events to count at once. Use a smaller --days.')
  table('By day', stats.by_day.slice(-MOST), ({ day }) => day)
  table('By conversation', stats.by_conversation, ({ title, conversation_id }) => title ?? conversation_id)
  table('By model', stats.by_model, ({ model }) => model)
  table('By agent', stats.by_agent, ({ agent }) => agent)
  if (stats.tools.length > 0) console.log(`\n${bold('Tools, most failures first')}`)
  for (const { tool, calls, failed, seconds } of stats.tools.slice(0, MOST))
    console.log(
      `  ${printable(tool)}  ${dim(`${count(calls, 'call')}, ${failed} failed, ${secondsOf(seconds)}`)}`,
    )
  if (stats.compactions.length > 0) console.log(`\n${bold('Shortened memory')}`)
  for (const one of stats.compactions.slice(-MOST)) {
    const { conversation_id, event_number, strategy, tokens_before, tokens_after, dropped } = one
    const ranges = dropped.map(([from, to]) => `${from}–${to}`).join(', ') || 'none'
    const what = `${strategy}, ${tokens_before} → ${tokens_after} tokens; the model no longer sees events ${ranges}`
    console.log(`  ${conversation_id} event ${event_number}  ${dim(printable(what))}`)
  }
}

function table<T extends Totals>(title: string, rows: readonly T[], nameOf: (row: T) => string): void {
  if (rows.length === 0) return
  console.log(`\n${bold(title)}`)
  for (const row of rows.slice(0, MOST)) console.log(`  ${printable(nameOf(row))}  ${dim(lineOf(row))}`)
}

function lineOf(sums: Totals): string {
  const number = (value: number) => value.toLocaleString('en')
  return [
    count(sums.runs, 'answer'),
    `${number(sums.input_tokens)} tokens in (${number(sums.cached_tokens)} cached), ${number(sums.output_tokens)} out`,
    `model ${secondsOf(sums.model_seconds)}`,
    `${count(sums.calls, 'call')} (${sums.failed_calls} failed, ${secondsOf(sums.tool_seconds)})`,
    `${count(sums.edits, 'edit')} in ${count(sums.files, 'file')}`,
  ].join(' · ')
}

function secondsOf(seconds: number): string {
  if (seconds < 100) return `${seconds.toFixed(1)} s`
  return seconds < 6000 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`
}
