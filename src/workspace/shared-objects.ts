import { mkdirSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { createGit, type Git } from '../git/git.ts'
import { type Manifest, openManifest } from '../manifest/manifest.ts'
import { clearLeftovers, createObjectStore, type ObjectStore } from './object-store.ts'
import { createPackMirror, type MirrorPlace, type PackMirror } from './pack-mirror.ts'
import { prepareStore } from './repository.ts'

/** Shared by all working copies of a data folder: one object store, and operations that run one at a time. */
export interface SharedObjects {
  store: string
  /** The project's own manifest. */
  manifest: Manifest
  objects: ObjectStore
  /** The copies of the objects in object storage; null when only this folder has them. */
  mirror: PackMirror | null
  git: Git
  inTurn<T>(work: () => Promise<T>): Promise<T>
  close(): void
}

export function openSharedObjects(options: {
  dataDir: string
  path: string
  mirror?: MirrorPlace | null | undefined
}): SharedObjects {
  const dataDir = realpathSync(options.dataDir)
  const store = prepareStore(dataDir)
  mkdirSync(join(dataDir, 'tmp', 'cookies'), { recursive: true })
  const manifest = openManifest(join(dataDir, 'manifest.db'))
  // No process writes packs while we hold the lock, so half-written ones belong to killed processes.
  manifest.lock('quickly')
  clearLeftovers(join(store, 'objects'))
  manifest.commit()
  const local = createObjectStore(join(store, 'objects'))
  const bare = createGit({ store, path: options.path })
  const mirror = options.mirror
    ? createPackMirror(options.mirror, { git: bare, store, dataDir, reload: local.reload })
    : null
  const objects = mirror ? mirrored(local, mirror) : local
  const git = withRecent(bare, objects, mirror)
  let turn: Promise<unknown> = Promise.resolve()
  return {
    store,
    manifest,
    objects,
    mirror,
    git,
    inTurn(work) {
      const next = turn.then(work, work)
      turn = next.catch(() => {})
      return next
    },
    close() {
      git.close()
      mirror?.close()
      manifest.close()
    },
  }
}

/** Reads recently written objects from memory, and fetches objects that are missing locally from the mirror. */
function withRecent(git: Git, objects: ObjectStore, mirror: PackMirror | null): Git {
  async function read(oid: string) {
    const found = objects.recent(oid) ?? (await git.read(oid))
    if (found || !mirror || !(await mirror.find(oid))) return found
    return await git.read(oid)
  }
  return { ...git, read }
}

/** Nothing counts as stored until it is in object storage. */
function mirrored(objects: ObjectStore, mirror: PackMirror): ObjectStore {
  return {
    ...objects,
    async flush() {
      const hasStored = await objects.flush()
      await mirror.push()
      return hasStored
    },
  }
}
