import type { RunnableConfig } from '@langchain/core/runnables'
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  copyCheckpoint,
  type DeltaChannelHistory,
  getCheckpointId,
  maxChannelVersion,
  type PendingWrite,
  TASKS,
  WRITES_IDX_MAP,
} from '@langchain/langgraph-checkpoint'
import type { AgentStates, Fence, StoredAgentState, Typed } from '../core/agent-states.ts'

/** The first state format that keeps sends to tasks in their own channel. */
const SENDS_IN_CHANNEL = 4

export interface StateSaverOptions {
  states: AgentStates
  /** Stops a worker that lost its run from writing its state (L8). */
  fence?: Fence | null
  /** The initial state of a thread without its own: a run continues from the state of the run before it on its line. */
  base?: string | null
}

/** Saves the graph's states in the store. */
export class StateSaver extends BaseCheckpointSaver {
  readonly #states: AgentStates
  readonly #fence: Fence | null
  readonly #base: string | null
  #lastId: string | null = null

  constructor({ states, fence = null, base = null }: StateSaverOptions) {
    super()
    this.#states = states
    this.#fence = fence
    this.#base = base
  }

  /** The state that was stored last; if none was, the one that was read last. */
  get lastId(): string | null {
    return this.#lastId
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const threadId = config.configurable?.thread_id as string | undefined
    if (threadId === undefined) return undefined
    const namespace = namespaceOf(config)
    const id = getCheckpointId(config) || null
    const found =
      (await this.#states.get({ threadId, namespace, id })) ??
      (id === null && this.#base !== null && namespace === ''
        ? await this.#states.get({ threadId, namespace, id: this.#base })
        : null)
    if (found && id === null) this.#lastId = found.id
    return found ? await this.#asTuple(found, threadId) : undefined
  }

  async *list(
    config: RunnableConfig,
    { limit, before, filter }: CheckpointListOptions = {},
  ): AsyncGenerator<CheckpointTuple> {
    const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable ?? {}
    const found = await this.#states.list({
      threadId: thread_id,
      namespace: checkpoint_ns,
      id: checkpoint_id,
      before: before?.configurable?.checkpoint_id,
    })
    let left = limit ?? found.length
    for (const state of found) {
      if (left <= 0) return
      const tuple = await this.#asTuple(state, state.threadId)
      const metadata = tuple.metadata as Record<string, unknown> | undefined
      if (!Object.entries(filter ?? {}).every(([key, value]) => metadata?.[key] === value)) continue
      left--
      yield tuple
    }
  }

  /** Overridden to avoid reading every state back to the last stored value. */
  override async getDeltaChannelHistory({
    config,
    channels,
  }: {
    config: RunnableConfig
    channels: string[]
  }): Promise<Record<string, DeltaChannelHistory>> {
    if (channels.length === 0) return {}
    const threadId = threadOf(config)
    const namespace = namespaceOf(config)
    const id = getCheckpointId(config) || (await this.getTuple(config))?.checkpoint.id
    if (!id) return {}
    const found = await this.#states.history({ threadId, namespace, id }, channels)
    const result: Record<string, DeltaChannelHistory> = {}
    for (const [channel, { seed, writes }] of Object.entries(found)) {
      result[channel] = {
        writes: await Promise.all(
          writes.map(
            async ({ taskId, value }) =>
              [taskId, channel, await this.#unpack(value)] as [string, string, unknown],
          ),
        ),
        ...(seed === null ? {} : { seed: await this.#unpack(seed) }),
      }
    }
    return result
  }

  async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const threadId = threadOf(config)
    const namespace = namespaceOf(config)
    const { channel_values, ...rest } = copyCheckpoint(checkpoint)
    const changed = Object.entries(channel_values).filter(([channel]) => channel in newVersions)
    await this.#states.put(
      {
        threadId,
        namespace,
        id: checkpoint.id,
        parentId: config.configurable?.checkpoint_id ?? null,
        state: await this.#pack(rest),
        metadata: await this.#pack(metadata),
        values: Object.fromEntries(
          await Promise.all(
            changed.map(async ([channel, value]) => [channel, await this.#pack(value)] as const),
          ),
        ),
        unchanged: Object.keys(checkpoint.channel_versions).filter((channel) => !(channel in newVersions)),
      },
      this.#fence,
    )
    this.#lastId = checkpoint.id
    return configOf(threadId, namespace, checkpoint.id)
  }

  async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const threadId = threadOf(config)
    const id = config.configurable?.checkpoint_id as string | undefined
    if (id === undefined) throw new Error('writes need a checkpoint_id')
    const packed = await Promise.all(
      writes.map(async ([channel, value], index) => ({
        taskId,
        index: WRITES_IDX_MAP[channel] ?? index,
        channel,
        value: await this.#pack(value),
      })),
    )
    await this.#states.putWrites({ threadId, namespace: namespaceOf(config), id }, packed, this.#fence)
  }

  async deleteThread(threadId: string): Promise<void> {
    await this.#states.deleteThread(threadId)
  }

  async #asTuple(found: StoredAgentState, threadId: string): Promise<CheckpointTuple> {
    const { namespace, id, parentId } = found
    return {
      config: configOf(threadId, namespace, id),
      checkpoint: await this.#checkpointOf(found),
      metadata: await this.#unpack<CheckpointMetadata>(found.metadata),
      pendingWrites: await Promise.all(
        found.writes.map(
          async ({ taskId, channel, value }) =>
            [taskId, channel, await this.#unpack(value)] as [string, string, unknown],
        ),
      ),
      ...(parentId === null ? {} : { parentConfig: configOf(threadId, namespace, parentId) }),
    }
  }

  async #checkpointOf(found: StoredAgentState): Promise<Checkpoint> {
    const stored = await this.#unpack<Omit<Checkpoint, 'channel_values'>>(found.state)
    const channel_values: Record<string, unknown> = {}
    for (const [channel, value] of Object.entries(found.values)) {
      channel_values[channel] = await this.#unpack(value)
    }
    const checkpoint = { ...stored, channel_values }
    return checkpoint.v < SENDS_IN_CHANNEL ? await this.#withSends(checkpoint, found) : checkpoint
  }

  /** Older formats keep sends to tasks among the parent's writes. */
  async #withSends(checkpoint: Checkpoint, { threadId, namespace, parentId }: StoredAgentState) {
    if (parentId === null) return checkpoint
    const parent = await this.#states.get({ threadId, namespace, id: parentId })
    const sends = (parent?.writes ?? []).filter(({ channel }) => channel === TASKS)
    const versions = Object.values(checkpoint.channel_versions)
    return {
      ...checkpoint,
      channel_values: {
        ...checkpoint.channel_values,
        [TASKS]: await Promise.all(sends.map(({ value }) => this.#unpack(value))),
      },
      channel_versions: {
        ...checkpoint.channel_versions,
        [TASKS]: versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined),
      },
    }
  }

  async #pack(value: unknown): Promise<Typed> {
    const [type, bytes] = await this.serde.dumpsTyped(value)
    return { type, bytes }
  }

  async #unpack<T>({ type, bytes }: Typed): Promise<T> {
    return (await this.serde.loadsTyped(type, bytes)) as T
  }
}

function threadOf(config: RunnableConfig): string {
  const threadId = config.configurable?.thread_id as string | undefined
  if (threadId === undefined) throw new Error('a state needs a thread_id')
  return threadId
}

function namespaceOf(config: RunnableConfig): string {
  return (config.configurable?.checkpoint_ns as string | undefined) ?? ''
}

function configOf(thread_id: string, checkpoint_ns: string, checkpoint_id: string): RunnableConfig {
  return { configurable: { thread_id, checkpoint_ns, checkpoint_id } }
}
