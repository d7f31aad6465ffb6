import type { Turn } from '../core/agent.ts'
import type { AgentStates, RunPast } from '../core/agent-states.ts'
import {
  type AttachmentStore,
  attachmentItem,
  attachmentScope,
  imageTypeOf,
  WHOLE_BYTES,
} from '../core/attachments.ts'
import type { Ledger } from '../core/ledger.ts'
import type { Log } from '../core/log.ts'
import type { Attachment } from '../core/queue.ts'
import {
  aroundEntries,
  type Chain,
  type Entry,
  type FoundChunk,
  imagesIn,
  isSent,
  type Surroundings,
  textIn,
} from '../core/request-plan.ts'
import type { RagScope } from '../core/retrieval.ts'
import type { Cursor } from '../protocol/cursor.ts'
import type { AnyFrame, Frame } from '../protocol/frames.ts'
import { type ActiveFilesDependencies, findActiveFiles, reloadFiles } from './active-files.ts'
import { packEntries } from './entry-chunks.ts'
import type { Assembled, Base, GraphState } from './graph.ts'
import { historyOf, type Made, type NewEntry } from './history.ts'
import { framesAfter } from './line-frames.ts'
import type { SetTurn } from './setting.ts'
import { estimateTokens } from './tokens.ts'

export interface AssemblerDependencies {
  states: Pick<AgentStates, 'putEntries'>
  ledger: Pick<Ledger, 'page'>
  /** Finds chunks of files for a message. */
  retrieval: Finder
  attachments: Pick<AttachmentStore, 'read' | 'onLine'>
  /** The files to send with a message (C3). */
  activeFiles(workspaceId: string | null): Promise<ActiveFilesDependencies>
  log: Pick<Log, 'error'>
}

const MOST_CHUNKS = 6
/** The number of an ended chain's snippets that are sent again, counted from the end. */
const MOST_AGAIN = 30
/** With more turns or entries than this, the older ones are moved out of the state. */
const MOST_TURNS = 40
const MOST_ENTRIES = 400

/** Indexes files and finds chunks of them. */
export interface Finder {
  sync(workspaceId: string): Promise<number>
  /** Indexes a text, unless it is already indexed. */
  noteText(scope: string, name: string, text: () => Promise<string>): Promise<void>
  /** Returns those of these chunks that their files still contain. */
  again(
    workspace: string | null,
    attachments: readonly string[],
    ids: readonly string[],
  ): Promise<FoundChunk[]>
  search(query: {
    workspace: string | null
    attachments: readonly { scope: string; name: string }[]
    question: string
    scope: RagScope
    limit: number
  }): Promise<FoundChunk[]>
}

type MessageTurn = Pick<Turn, 'tenant' | 'conversationId' | 'runId' | 'message'>

/** Assembles the model's new input for a run, and the files and snippets for its message. */
export function createAssembler(deps: AssemblerDependencies) {
  const { ledger, states, retrieval, attachments, activeFiles, log } = deps
  return { assemble, newFor, again }

  /** The current state of all files and snippets that an ended chain had been sent (C4). */
  async function again(turn: SetTurn, chain: Chain, around: Surroundings): Promise<Surroundings> {
    const { files } = await activeFiles(turn.workspaceId)
    const found = await reloadFiles(files, chain, around)
    const active = new Set(found.files.map((file) => file.path))
    const { workspaceId: place, setting } = turn
    const workspace = place === null ? null : indexName(place, setting.index)
    const scopes = (await attachmentScopes(turn)).map(({ scope }) => scope)
    const known = new Set(around.chunks.map((chunk) => chunk.id))
    const ids = chain.chunks.filter((id) => !known.has(id)).slice(-MOST_AGAIN)
    const chunks = ids.length === 0 ? [] : await retrieval.again(workspace, scopes, ids)
    return { ...found, chunks: [...around.chunks, ...chunks.filter((chunk) => !active.has(chunk.path))] }
  }

  /**
   * Stores the entries of earlier turns once there are many, so that the state stays small in a long conversation. Null
   * while there are few.
   */
  async function sealOlder(turn: SetTurn, past: RunPast, state: GraphState): Promise<Base | null> {
    const { items } = state
    const base = state.base ?? null
    const turns = new Set(items.map((entry) => entry.turn)).size
    if (!past.state || (turns < MOST_TURNS && items.length < MOST_ENTRIES)) return null
    const { conversationId, runId, hold } = turn
    const chunk = { id: past.state.id, parent: base?.chunk ?? null, bytes: packEntries(items) }
    await states.putEntries(chunk, { conversationId, runId, epoch: hold.epoch })
    const tokens = items.reduce((sum, entry) => sum + entry.tokens, base?.tokens ?? 0)
    return { chunk: chunk.id, count: (base?.count ?? 0) + items.length, tokens }
  }

  async function assemble(turn: SetTurn, past: RunPast, state: GraphState): Promise<Assembled> {
    const { entries, isWhole } = await newFor(turn, past)
    const older = isWhole ? null : await sealOlder(turn, past, state)
    const base = isWhole ? null : (older ?? state.base ?? null)
    const chain = isWhole ? null : (state.chain ?? null)
    const given = turn.message.extras.activeFiles ?? []
    const found = await findActiveFiles(await activeFiles(turn.workspaceId), given, chain)
    const active = new Set(found.files.flatMap((file) => (isSent(file) ? file.path : [])))
    const chunks = await findChunks(turn)
    // A file that is sent whole needs no snippets.
    const surroundings = { ...found, chunks: chunks.filter((chunk) => !active.has(chunk.path)) }
    const added = entries.map(withTokens)
    const asItems = (all: Entry[]) => (isWhole || older ? { reset: all } : all)
    if (turn.setting.keepsResponses()) return { items: asItems(added), base, surroundings, chain }
    const around = await asEntries(turn, chain, surroundings, isWhole ? [] : state.items)
    const items = asItems([...added.slice(0, -1), ...around.entries, ...added.slice(-1)])
    return { items, base, surroundings: around.surroundings, chain: around.chain }
  }

  /**
   * Without a chain, files and snippets become entries: every later request sends them again in the same place, so its
   * beginning stays the same to the byte and the provider's cache has it.
   */
  async function asEntries(
    turn: SetTurn,
    chain: Chain | null,
    around: Surroundings,
    earlier: readonly Entry[],
  ) {
    const isHeldElsewhere = chain !== null && chain.responseId !== null
    const all = isHeldElsewhere ? await again(turn, chain, around) : around
    const { entries, seen } = aroundEntries(all, chain, earlier, turn.message.messageId)
    const { model, providerUrl: provider } = turn.setting
    return {
      entries,
      surroundings: { files: [], skipped: all.skipped, chunks: [] },
      chain: { responseId: null, at: 0, model, provider, entries: 0, ...seen },
    }
  }

  /** Finds chunks of the current files (C7). */
  async function findChunks(turn: SetTurn): Promise<FoundChunk[]> {
    const { workspaceId: place, message } = turn
    const workspaceId = place === null ? null : indexName(place, turn.setting.index)
    try {
      if (workspaceId !== null) await retrieval.sync(workspaceId)
      return await retrieval.search({
        workspace: workspaceId,
        attachments: await attachmentScopes(turn),
        question: message.content,
        scope: message.extras.ragScope ?? {},
        limit: MOST_CHUNKS,
      })
    } catch (error) {
      // The message can be answered without chunks.
      log.error({ err: error }, 'the index could not be searched')
      return []
    }
  }

  /** The entries of the line after the last agent state, up to and including this run's message; the whole line if requested. */
  async function newFor(turn: MessageTurn, past: RunPast) {
    const { messageId, content, extras } = turn.message
    const frames = await otherFrames(turn, past.state?.cursor ?? null)
    const isWhole = frames.some(undoesMemory)
    const told = isWhole ? await otherFrames(turn, null) : frames
    const own = extras.attachments ?? []
    const items = await attachedItems([...told.flatMap(attachmentsOf), ...own])
    const origin = { type: 'message' as const, role: 'user' as const, message_id: messageId }
    const asked = [...items(own), { origin, item: { role: 'user', content } }]
    const entries = [...historyOf(told, items), ...asked.map((made) => ({ ...made, turn: messageId }))]
    return { entries, isWhole }
  }

  /** Includes small attachments whole, and only mentions large ones (C9). */
  async function attachedItems(all: readonly Attachment[]) {
    const texts = new Map<string, string>()
    for (const { sha256, bytes, media_type } of all) {
      const isWhole = bytes <= WHOLE_BYTES || media_type !== undefined
      if (isWhole && !texts.has(sha256)) texts.set(sha256, await attachments.read(sha256))
    }
    return (some: readonly Attachment[]) =>
      some.map((one): Made => {
        const origin = { type: 'attachment' as const, name: one.name }
        return { origin, item: attachmentItem(one, texts.get(one.sha256) ?? null) }
      })
  }

  /** The line's attachments that are searched in chunks; indexes them on first use. */
  async function attachmentScopes({
    tenant,
    conversationId,
    message,
  }: SetTurn): Promise<{ scope: string; name: string }[]> {
    const onLine = await attachments.onLine(tenant, conversationId)
    const large = [...onLine, ...(message.extras.attachments ?? [])].filter((one) => one.bytes > WHOLE_BYTES)
    const scopes = new Map<string, string>()
    for (const { sha256, name } of large) {
      const scope = attachmentScope(sha256)
      if (scopes.has(scope)) continue
      scopes.set(scope, name)
      await retrieval.noteText(scope, name, async () => {
        const content = await attachments.read(sha256)
        // An image has no words.
        return imageTypeOf(content) === null ? content : ''
      })
    }
    return [...scopes].map(([scope, name]) => ({ scope, name }))
  }

  /** The frames after the cursor, without those of the run itself. */
  async function otherFrames(turn: MessageTurn, cursor: Cursor | null): Promise<AnyFrame[]> {
    const frames = await framesAfter(ledger, turn, cursor)
    return frames.filter((frame) => frame.stream_id !== turn.runId)
  }
}

/** The slash keeps an additional index of a workspace apart from its own, because no workspace id contains one. */
export function indexName(workspaceId: string, index: string | null): string {
  return index === null ? workspaceId : `${workspaceId}/${index}`
}

function attachmentsOf(frame: AnyFrame): readonly Attachment[] {
  return frame.kind === 'message.user' ? ((frame as Frame<'message.user'>).attachments ?? []) : []
}

/** True if a person requested that the model see the whole history again. */
function undoesMemory(frame: AnyFrame): boolean {
  return (
    frame.kind === 'memory.checkpoint' && (frame as Frame<'memory.checkpoint'>).checkpoint.strategy === 'none'
  )
}

/** Models count an image by its size; this is a usual one. */
const IMAGE_TOKENS = 1000

export function withTokens(entry: NewEntry): Entry {
  return { ...entry, tokens: estimateTokens(textIn(entry.item)) + imagesIn(entry.item) * IMAGE_TOKENS }
}
