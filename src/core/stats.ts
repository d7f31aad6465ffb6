import type { Stats, Totals } from '../protocol/api/stats.ts'
import type { ConversationId } from '../protocol/ids.ts'
import type { ActivityRow } from './projection.ts'

export interface StatsQuery {
  tenant: string
  conversationId: ConversationId | null
  since: string
  until: string
}

/** What happened in a time, as stored. */
export interface StatsRows {
  activity: Pick<
    ActivityRow,
    | 'conversation_id'
    | 'run_id'
    | 'kind'
    | 'name'
    | 'detail'
    | 'status'
    | 'input_tokens'
    | 'output_tokens'
    | 'cached_tokens'
    | 'created_at'
  >[]
  edits: { conversation_id: string; run_id: string | null; path: string; created_at: string }[]
  requests: {
    conversation_id: string
    run_id: string
    model: string | null
    began: string
    ended: string | null
  }[]
  memories: { conversation_id: string; seq: number; created_at: string; details: string }[]
  titles: { id: string; title: string | null }[]
  isPartial: boolean
}

export interface StatsStore {
  read(query: StatsQuery): Promise<Stats>
}

const OWN = 'waymark'
const UNKNOWN = 'unknown'
const LISTED = 100

type Sums = Totals & { paths: Set<string> }

/** Counts what happened: in all, and by day, conversation, model, agent and tool. */
export function statsOf(rows: StatsRows, { since, until }: Pick<StatsQuery, 'since' | 'until'>): Stats {
  const all = newSums()
  const [days, conversations, models, agents] = [groups(), groups(), groups(), groups()]
  const modelOf = new Map(
    rows.requests.flatMap(({ run_id, model }) => (model === null ? [] : [[run_id, model]])),
  )
  const agentOf = new Map<string, string>()
  const lastAgent = new Map<string, { name: string; model: string | null }>()
  for (const { kind, run_id, conversation_id, name, detail } of rows.activity) {
    if (kind === 'agent') {
      const model = detail ?? lastAgent.get(conversation_id)?.model ?? null
      lastAgent.set(conversation_id, { name, model })
      if (run_id !== null) agentOf.set(run_id, name)
      if (run_id !== null && model !== null && !modelOf.has(run_id)) modelOf.set(run_id, model)
    }
  }

  function add(
    place: { conversation_id: string; run_id: string | null; created_at: string },
    count: (sums: Sums) => void,
  ): void {
    const run = place.run_id ?? ''
    count(all)
    count(days(place.created_at.slice(0, 10)))
    count(conversations(place.conversation_id))
    count(models(modelOf.get(run) ?? UNKNOWN))
    count(agents(agentOf.get(run) ?? OWN))
  }

  const tools = new Map<string, { calls: number; failed: number; seconds: number }>()
  const begun = new Map<string, { at: number; name: string }>()
  for (const row of rows.activity) {
    if (row.kind === 'end') {
      add(row, (sums) => {
        sums.runs++
        sums.input_tokens += row.input_tokens
        sums.cached_tokens += row.cached_tokens
        sums.output_tokens += row.output_tokens
      })
    }
    if (row.kind !== 'call') continue
    const key = `${row.run_id} ${row.detail}`
    const at = Date.parse(row.created_at)
    if (row.status === 'in_progress') begun.set(key, { at, name: row.name })
    if (row.status !== 'completed' && row.status !== 'failed') continue
    const started = begun.get(key)
    begun.delete(key)
    const seconds = started ? Math.max(0, at - started.at) / 1000 : 0
    const failed = row.status === 'failed' ? 1 : 0
    const tool = tools.get(row.name) ?? { calls: 0, failed: 0, seconds: 0 }
    tools.set(row.name, {
      calls: tool.calls + 1,
      failed: tool.failed + failed,
      seconds: tool.seconds + seconds,
    })
    add(row, (sums) => {
      sums.calls++
      sums.failed_calls += failed
      sums.tool_seconds += seconds
    })
  }
  for (const row of rows.edits) {
    add(row, (sums) => {
      sums.edits++
      sums.paths.add(row.path)
    })
  }
  for (const { conversation_id, run_id, began, ended } of rows.requests) {
    const seconds = ended === null ? 0 : Math.max(0, Date.parse(ended) - Date.parse(began)) / 1000
    add({ conversation_id, run_id, created_at: began }, (sums) => {
      sums.model_seconds += seconds
    })
  }

  const titles = new Map(rows.titles.map(({ id, title }) => [id, title]))
  return {
    since,
    until,
    is_partial: rows.isPartial,
    totals: totalsOf(all),
    by_day: days.list((day) => ({ day })).sort((a, b) => (a.day < b.day ? -1 : 1)),
    by_conversation: conversations
      .list((id) => ({ conversation_id: id, title: titles.get(id) ?? null }))
      .sort(byTokens)
      .slice(0, LISTED),
    by_model: models.list((model) => ({ model })).sort(byTokens),
    by_agent: agents.list((agent) => ({ agent })).sort(byTokens),
    tools: [...tools]
      .map(([tool, sums]) => ({ tool, ...sums, seconds: rounded(sums.seconds) }))
      .sort((a, b) => b.failed - a.failed || b.calls - a.calls)
      .slice(0, LISTED),
    compactions: rows.memories.map(compactionOf),
  }
}

function compactionOf({
  conversation_id,
  seq,
  created_at,
  details,
}: StatsRows['memories'][number]): Stats['compactions'][number] {
  const given = JSON.parse(details) as Record<string, unknown>
  const count = (value: unknown) => (Number.isSafeInteger(value) ? Number(value) : 0)
  return {
    conversation_id,
    event_number: seq,
    at: created_at,
    strategy: String(given.strategy),
    tokens_before: count(given.tokens_before),
    tokens_after: count(given.tokens_after),
    dropped: Array.isArray(given.dropped) ? (given.dropped as [number, number][]) : [],
  }
}

function byTokens(a: Totals, b: Totals): number {
  return b.input_tokens + b.output_tokens - a.input_tokens - a.output_tokens || b.runs - a.runs
}

function newSums(): Sums {
  return {
    runs: 0,
    input_tokens: 0,
    cached_tokens: 0,
    output_tokens: 0,
    model_seconds: 0,
    tool_seconds: 0,
    calls: 0,
    failed_calls: 0,
    edits: 0,
    files: 0,
    paths: new Set(),
  }
}

function groups() {
  const found = new Map<string, Sums>()
  const of = (key: string): Sums => {
    const sums = found.get(key) ?? newSums()
    found.set(key, sums)
    return sums
  }
  return Object.assign(of, {
    list: <T extends object>(name: (key: string) => T): (T & Totals)[] =>
      [...found].map(([key, sums]) => ({ ...name(key), ...totalsOf(sums) })),
  })
}

function totalsOf({ paths, ...sums }: Sums): Totals {
  return {
    ...sums,
    files: paths.size,
    model_seconds: rounded(sums.model_seconds),
    tool_seconds: rounded(sums.tool_seconds),
  }
}

function rounded(seconds: number): number {
  return Math.round(seconds * 1000) / 1000
}
