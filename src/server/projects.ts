import type { ProjectList } from '../protocol/api/service.ts'

/** A project that this process serves. */
export interface ServedProject {
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
  /** `current` is the address of the project that asks. */
  list(current: string): ProjectList['items']
  /** A new link to sign in to the project; null if it is not served here. */
  link(id: string): string | null
}

export function createProjects(): Projects {
  const served = new Map<string, ServedProject>()
  let last = 0
  return {
    add(project) {
      // Folders of the same name have the same workspace id.
      const id = String(++last)
      served.set(id, project)
      return () => served.delete(id)
    },
    list: (current) =>
      [...served].map(([id, { name, url }]) => ({ id, name, url, is_this: url === current })),
    link: (id) => served.get(id)?.newLoginUrl() ?? null,
  }
}
