import type { WorkStore } from '../core/work-sessions.ts'
import type { SessionView } from '../protocol/api/work.ts'
import type { Workspace } from './workspace.ts'

export type Author = SessionView['changed_files'][number]['by'][number] & { isOther: boolean }

/** The conversations that changed each file of a workspace since a checkpoint. */
export interface Authors {
  of(path: string): Author[]
}

/** The files that differ between two checkpoints, or between one and now. */
type Differences = (from: string, to: string | null) => Promise<readonly string[]>

const MOST_REMEMBERED = 2000

/** Checkpoints never change, so two of them are compared only once. */
export function createDifferences(workspace: Pick<Workspace, 'has' | 'differences'>): Differences {
  const known = new Map<string, readonly string[]>()
  return async (from, to) => {
    const key = `${from} ${to}`
    const before = known.get(key)
    if (before) return before
    // Checkpoints that aren't stored here can't be compared.
    if (from === to || !(await workspace.has(to === null ? [from] : [from, to]))) return []
    const paths = (await workspace.differences(from, to)).map(({ path }) => path)
    if (to === null) return paths
    if (known.size >= MOST_REMEMBERED) known.clear()
    known.set(key, paths)
    return paths
  }
}

/**
 * A tool's edits name their conversation. Changes that commands make are not recorded: a file that differs between a run's
 * checkpoint and the next one in the workspace counts as changed by that run, even if a person saved it meanwhile.
 */
export async function findAuthors(
  { store, between }: { store: Pick<WorkStore, 'doneSince'>; between: Differences },
  asked: { tenant: string; conversationId: string; workspaceId: string; since: string },
): Promise<Authors> {
  const { edits, checkpoints, names } = await store.doneSince(asked.workspaceId, asked.since)
  const found = new Map<string, Map<string, Author['how']>>()
  const note = (path: string, conversationId: string, how: Author['how']) => {
    const authors = found.get(path) ?? new Map<string, Author['how']>()
    if (authors.get(conversationId) !== 'tool') authors.set(conversationId, how)
    found.set(path, authors)
  }
  for (const { path, conversationId } of edits) note(path, conversationId, 'tool')
  for (const [index, { conversationId, checkpointId, isBefore }] of checkpoints.entries()) {
    if (!isBefore) continue
    const next = checkpoints[index + 1]?.checkpointId ?? null
    for (const path of await between(checkpointId, next)) note(path, conversationId, 'run')
  }
  const known = new Map(names.map((one) => [one.conversationId, one]))
  return {
    of: (path) =>
      [...(found.get(path) ?? [])].map(([id, how]) => {
        const name = known.get(id)
        const isOwn = name?.tenant === asked.tenant
        return {
          conversation_id: isOwn ? id : null,
          title: isOwn ? (name.title ?? null) : null,
          how,
          isOther: id !== asked.conversationId,
        }
      }),
  }
}

export function nameOf({ title, conversation_id }: Author): string {
  if (title !== null) return `“${title}”`
  return conversation_id ?? 'another conversation'
}
