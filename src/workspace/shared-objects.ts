import { mkdirSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { createGit, type Git } from '../git/git.ts'
import { type Manifest, openManifest } from './manifest.ts'
import { clearLeftovers, createObjectStore, type ObjectStore } from './object-store.ts'
import { prepareStore } from './repository.ts'

/** What all working copies of a data folder share: one store of objects, and one thing at a time. */
export interface SharedObjects {
  store: string
  /** The project's own. */
  manifest: Manifest
  objects: ObjectStore
  git: Git
  inTurn<T>(work: () => Promise<T>): Promise<T>
  close(): void
}

export function openSharedObjects(options: { dataDir: string; path: string }): SharedObjects {
  const dataDir = realpathSync(options.dataDir)
  const store = prepareStore(dataDir)
  mkdirSync(join(dataDir, 'tmp', 'cookies'), { recursive: true })
  const manifest = openManifest(join(dataDir, 'manifest.db'))
  // While we hold it nobody writes packs: what is half-written was left by somebody who is gone.
  manifest.lock('quickly')
  clearLeftovers(join(store, 'objects'))
  manifest.commit()
  const objects = createObjectStore(join(store, 'objects'))
  const git = withRecent(createGit({ store, path: options.path }), objects)
  let turn: Promise<unknown> = Promise.resolve()
  return {
    store,
    manifest,
    objects,
    git,
    inTurn(work) {
      const next = turn.then(work, work)
      turn = next.catch(() => {})
      return next
    },
    close() {
      git.close()
      manifest.close()
    },
  }
}

/** What we have just written ourselves need not be asked for. */
function withRecent(git: Git, objects: ObjectStore): Git {
  return { ...git, read: async (oid) => objects.recent(oid) ?? (await git.read(oid)) }
}
