import type { BaseCheckpointSaver } from '@langchain/langgraph-checkpoint'
import type { Chain, EarlierEntries, Entry, ModelItem, Surroundings } from '../core/request-plan.ts'
import type { Usage } from '../protocol/frames.ts'
import type { FunctionCall, ModelResult } from './provider/mapping.ts'
import type { StateSaver } from './state-saver.ts'

/**
 * The agent's graph, with its state between two steps. A model that pauses its answer is called again:
 *
 *   assemble ──► model ⇄ tools
 *                  └──► end
 */
export interface GraphState {
  /** The entries of the model's input after those in `base`, oldest first. Each step stores what it added. */
  items: Entry[]
  /** Older entries, stored once and not loaded with the state; null when there are none. */
  base: Base | null
  /** The files and snippets for this run's message. */
  surroundings: Surroundings
  /** The chain that the provider stores; null when there is none. */
  chain: Chain | null
  /** Calls of the last response that have no outcome yet. */
  pending: FunctionCall[]
  /** The number of model calls in this run. */
  modelCalls: number
  usage: Usage
  status: 'completed' | 'incomplete'
  reason: string | null
}

/** Each step ends by itself when the run is stopped, so that none is still running when the graph has ended. */
export interface GraphSteps {
  /** Returns the model's new input for this run; `reset` replaces all earlier entries. */
  assemble(state: GraphState): Promise<Assembled>
  callModel(state: GraphState): Promise<ModelStep>
  runTools(state: GraphState): Promise<{ items: Entry[]; chain: Chain | null }>
}

/** The last chunk of older entries, with the totals up to it. */
export interface Base extends EarlierEntries {
  chunk: string
}

export interface Assembled {
  base: Base | null
  items: Entry[] | Reset
  surroundings: Surroundings
  chain: Chain | null
}

export interface ModelStep {
  result: ModelResult
  base: Base | null
  items: Entry[] | Reset
  chain: Chain | null
}

/** Entries that replace all earlier ones. */
export interface Reset {
  reset: Entry[]
}

export interface GraphOptions {
  steps: GraphSteps
  saver: StateSaver
  threadId: string
  maxModelCalls: number
}

/** The reason of an answer that its server wants to continue, when it gets the answer back. */
const PAUSED = 'pause_turn'

/** After this many steps that add items, a full copy is stored; the other steps store only what they added. */
const SNAPSHOT_EVERY = 40

export const nothingAround: Surroundings = { files: [], skipped: [], chunks: [] }

/** Runs the graph to its end, from the thread's last state if it has one. */
export async function runGraph(options: GraphOptions): Promise<GraphState & { stateId: string }> {
  const { steps, saver, threadId, maxModelCalls } = options
  const graph = await compile(steps, saver, maxModelCalls)
  const config = { configurable: { thread_id: threadId } }
  const isBegun = await hasOwnState(saver, threadId)
  const input = isBegun
    ? null
    : { modelCalls: 0, pending: [], usage: noUsage(), status: 'completed', reason: null }
  // Each step's state is stored before the next step begins, so that no effect is ever forgotten (R4).
  const end = await graph.invoke(input as never, {
    ...config,
    durability: 'sync',
    recursionLimit: maxModelCalls * 2 + 10,
  })
  if (saver.lastId === null) throw new Error('the graph ended without a state')
  return { ...(end as unknown as GraphState), stateId: saver.lastId }
}

/** Reads the graph's state at the start of a saver's thread. */
export async function readGraph(
  saver: StateSaver,
  threadId: string,
): Promise<Pick<GraphState, 'items' | 'chain' | 'base'>> {
  const graph = await compile(NO_STEPS, saver, 1)
  const { values } = await graph.getState({ configurable: { thread_id: threadId } })
  const { items = [], chain = null, base = null } = values as Partial<GraphState>
  return { items, chain, base }
}

const NO_STEPS = {} as GraphSteps

/** LangGraph is loaded on first use, because loading takes half a second. */
async function compile(steps: GraphSteps, saver: BaseCheckpointSaver, maxModelCalls: number) {
  const { StateGraph, StateSchema, DeltaValue, START, END } = await import('@langchain/langgraph')
  const z = await import('zod')
  const schema = new StateSchema({
    items: new DeltaValue(z.custom<Entry[]>().default([]), {
      inputSchema: z.custom<Entry[] | Reset>(),
      reducer: (items: Entry[], added: (Entry[] | Reset)[]) => added.reduce(addEntries, items),
      snapshotFrequency: SNAPSHOT_EVERY,
    }),
    base: z.custom<Base | null>(),
    surroundings: z.custom<Surroundings>(),
    chain: z.custom<Chain | null>(),
    pending: z.custom<FunctionCall[]>(),
    modelCalls: z.number(),
    usage: z.custom<Usage>(),
    status: z.custom<GraphState['status']>(),
    reason: z.custom<string | null>(),
  })
  return new StateGraph(schema)
    .addNode('assemble', async (state) => ({ ...(await steps.assemble(state)) }))
    .addNode('model', async (state) => {
      const { result, items, chain, base } = await steps.callModel(state)
      return {
        items,
        base,
        chain,
        pending: result.calls,
        modelCalls: state.modelCalls + 1,
        usage: addUsage(state.usage, result.usage),
        status: result.status,
        reason: result.reason,
      }
    })
    .addNode('tools', async (state) => {
      const { items, chain } = await steps.runTools(state)
      const isLimit = state.modelCalls >= maxModelCalls
      return {
        items,
        chain,
        pending: [],
        ...(isLimit
          ? { status: 'incomplete' as const, reason: `reached the limit of ${maxModelCalls} model calls` }
          : {}),
      }
    })
    .addEdge(START, 'assemble')
    .addEdge('assemble', 'model')
    .addConditionalEdges(
      'model',
      (state) => {
        if (state.pending.length > 0) return 'tools'
        return state.reason === PAUSED && state.modelCalls < maxModelCalls ? 'model' : END
      },
      ['tools', 'model', END],
    )
    .addConditionalEdges('tools', (state) => (state.modelCalls >= maxModelCalls ? END : 'model'), [
      'model',
      END,
    ])
    .compile({ checkpointer: saver })
}

function addEntries(before: Entry[], added: Entry[] | Reset): Entry[] {
  return Array.isArray(added) ? before.concat(added.map(asEntry)) : added.reset
}

/** Converts items that were stored before entries had turns. */
function asEntry(entry: Entry | ModelItem): Entry {
  if ('item' in entry && 'tokens' in entry) return entry
  return { item: entry, turn: 'unknown', tokens: Math.ceil(JSON.stringify(entry).length / 4) }
}

/** A thread that has only an inherited state has not begun. */
async function hasOwnState(saver: BaseCheckpointSaver, threadId: string): Promise<boolean> {
  for await (const _ of saver.list({ configurable: { thread_id: threadId } }, { limit: 1 })) return true
  return false
}

function noUsage(): Usage {
  return {
    input_tokens: 0,
    output_tokens: 0,
    total_tokens: 0,
    cached_input_tokens: 0,
    reasoning_output_tokens: 0,
    requests: 0,
  }
}

function addUsage(before: Usage, added: ModelResult['usage']): Usage {
  return {
    input_tokens: before.input_tokens + added.input,
    output_tokens: before.output_tokens + added.output,
    total_tokens: before.total_tokens + added.total,
    cached_input_tokens: (before.cached_input_tokens ?? 0) + added.cached,
    reasoning_output_tokens: (before.reasoning_output_tokens ?? 0) + added.reasoning,
    requests: (before.requests ?? 0) + 1,
    ...(added.cost === null ? {} : { cost: (before.cost ?? 0) + added.cost }),
  }
}
