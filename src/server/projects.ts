import type { ProjectList } from '../protocol/api/service.ts'

/** A project that this process serves. */
export interface ServedProject {
  workspaceId: string
  /** The folder's name. */
  name: string
  url: string
  /** A link that signs in one browser, once. */
  newLoginUrl(): string
}

/**
 * The projects of this process. Each has its own address, store and tokens: browsers keep their pages apart as they do those of
 * different sites, and no token opens two projects.
 */
export interface Projects {
  /** Returns a function that removes it. */
  add(project: ServedProject): () => void
  list(current: string): ProjectList['items']
  /** A new link to sign in to the project; null if it is not served here. */
  link(workspaceId: string): string | null
}

export function createProjects(): Projects {
  const served = new Map<string, ServedProject>()
  return {
    add(project) {
      served.set(project.workspaceId, project)
      return () => served.delete(project.workspaceId)
    },
    list: (current) =>
      [...served.values()].map(({ workspaceId, name, url }) => ({
        workspace_id: workspaceId,
        name,
        url,
        is_this: workspaceId === current,
      })),
    link: (workspaceId) => served.get(workspaceId)?.newLoginUrl() ?? null,
  }
}
