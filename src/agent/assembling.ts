import type { Turn } from '../core/agent.ts'
import type { AgentStates, RunPast } from '../core/agent-states.ts'
import { type AttachmentStore, attachmentItem, attachmentScope, WHOLE_BYTES } from '../core/attachments.ts'
import { type Chain, type Entry, type FoundChunk, type Surroundings, textIn } from '../core/context.ts'
import type { Ledger, PageQuery } from '../core/ledger.ts'
import type { Log } from '../core/log.ts'
import type { Attachment } from '../core/queue.ts'
import type { RagScope } from '../core/retrieval.ts'
import type { Cursor } from '../protocol/cursor.ts'
import type { AnyFrame, Frame } from '../protocol/frames.ts'
import { type ActiveFilesDependencies, findActiveFiles, reloadFiles } from './active-files.ts'
import type { SetTurn } from './agent.ts'
import { packEntries } from './entry-chunks.ts'
import type { Assembled, Base, GraphState } from './graph.ts'
import { historyOf } from './history.ts'
import { estimateTokens } from './tokens.ts'

export interface AssemblerDependencies {
  states: Pick<AgentStates, 'putEntries'>
  ledger: Pick<Ledger, 'page'>
  /** Finds pieces of files for a question. */
  retrieval: Finder
  attachments: Pick<AttachmentStore, 'read' | 'onLine'>
  /** The files that go with a question (C3). */
  activeFiles(workspaceId: string | null): Promise<ActiveFilesDependencies>
  log: Pick<Log, 'error'>
}

const FRAMES_AT_ONCE = 500
const MOST_CHUNKS = 6
/** So many snippets of an ended chain are sent again, the last ones. */
const MOST_AGAIN = 30
/** With more turns, or entries, than this the older ones leave the state. */
const MOST_TURNS = 40
const MOST_ENTRIES = 400

/** What finds pieces of files. */
export interface Finder {
  sync(workspaceId: string): Promise<number>
  /** Indexes a text, unless it is. */
  noteText(scope: string, name: string, text: () => Promise<string>): Promise<void>
  /** Those of these pieces that are still there, as they are now. */
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

type Asked = Pick<Turn, 'tenant' | 'conversationId' | 'runId' | 'message'>

/** What is new for the model in a run, and what goes with its question. */
export function createAssembler(deps: AssemblerDependencies) {
  const { ledger, states, retrieval, attachments, activeFiles, log } = deps
  return { assemble, newFor, again }

  /** All that an ended chain had been sent besides what was said, as it is now (C4). */
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
   * Stores the entries of earlier turns once there are many, so that the state stays small however long the conversation
   * becomes. Null while they are few.
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
    const added = entries.map(withTokens)
    const older = isWhole ? null : await sealOlder(turn, past, state)
    const items = isWhole || older ? { reset: added } : added
    const base = isWhole ? null : (older ?? state.base ?? null)
    const chain = isWhole ? null : (state.chain ?? null)
    const given = turn.message.extras.activeFiles ?? []
    const found = await findActiveFiles(await activeFiles(turn.workspaceId), given, chain)
    const active = new Set(found.files.flatMap((file) => (file.state === 'whole' ? file.path : [])))
    const chunks = await findChunks(turn)
    // What goes whole need not go in pieces.
    const surroundings = { ...found, chunks: chunks.filter((chunk) => !active.has(chunk.path)) }
    return { items, base, surroundings, chain }
  }

  /** Pieces of files as they are now (C7). */
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
      // A question is answered without them as well.
      log.error({ err: error }, 'the index could not be searched')
      return []
    }
  }

  /** The entries of the line after the last agent state, up to and including this run's message; the whole line if requested. */
  async function newFor(turn: Asked, past: RunPast) {
    const { messageId, content, extras } = turn.message
    const frames = await framesBehind(turn, past.state?.cursor ?? null)
    const isWhole = frames.some(undoesMemory)
    const told = isWhole ? await framesBehind(turn, null) : frames
    const own = extras.attachments ?? []
    const items = await attachedItems([...told.flatMap(attachmentsOf), ...own])
    const asked = [...items(own), { role: 'user', content }]
    const entries = [...historyOf(told, items), ...asked.map((item) => ({ item, turn: messageId }))]
    return { entries, isWhole }
  }

  /** Small ones whole, of large ones that they are there (C9). */
  async function attachedItems(all: readonly Attachment[]) {
    const texts = new Map<string, string>()
    for (const { sha256, bytes } of all) {
      if (bytes <= WHOLE_BYTES && !texts.has(sha256)) texts.set(sha256, await attachments.read(sha256))
    }
    return (some: readonly Attachment[]) =>
      some.map((one) => attachmentItem(one, texts.get(one.sha256) ?? null))
  }

  /** Of those on the line, the ones that go in pieces; indexed when they are first asked about. */
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
      await retrieval.noteText(scope, name, () => attachments.read(sha256))
    }
    return [...scopes].map(([scope, name]) => ({ scope, name }))
  }

  async function framesBehind(
    { tenant, conversationId, runId }: Asked,
    cursor: Cursor | null,
  ): Promise<AnyFrame[]> {
    const frames: AnyFrame[] = []
    const query: PageQuery = { tenant, conversationId, cursor, limit: FRAMES_AT_ONCE }
    for (;;) {
      const page = await ledger.page(query)
      for (const text of page.frames) {
        const frame = JSON.parse(text) as AnyFrame
        if (frame.stream_id !== runId) frames.push(frame)
      }
      query.cursor = page.last
      if (page.atEnd) return frames
    }
  }
}

/** An index of one workspace's files under another name is divided from its own by a slash, which no workspace has. */
export function indexName(workspaceId: string, index: string | null): string {
  return index === null ? workspaceId : `${workspaceId}/${index}`
}

function attachmentsOf(frame: AnyFrame): readonly Attachment[] {
  return frame.kind === 'message.user' ? ((frame as Frame<'message.user'>).attachments ?? []) : []
}

/** A person asked for the model to see the whole history again. */
function undoesMemory(frame: AnyFrame): boolean {
  return (
    frame.kind === 'memory.checkpoint' && (frame as Frame<'memory.checkpoint'>).checkpoint.strategy === 'none'
  )
}

export function withTokens({ item, turn }: Omit<Entry, 'tokens'>): Entry {
  return { item, turn, tokens: estimateTokens(textIn(item)) }
}
