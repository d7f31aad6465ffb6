import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'

/** Flags of `unshare` that create a private mount namespace; undefined where the system does not allow one. */
export const mountNamespace: string[] | undefined = [['-m'], ['-Urm']].find(
  (flags) => spawnSync('unshare', [...flags, 'mount', '-t', 'tmpfs', 'tmpfs', tmpdir()]).status === 0,
)

/** Arguments of `unshare` that run a script with a disk of this size mounted at the folder. */
export function onSmallDisk(
  namespace: readonly string[],
  { folder, size, script, args = [] }: { folder: string; size: string; script: string; args?: string[] },
): string[] {
  const command = `mount -t tmpfs -o size=${size} tmpfs "$0" && node="$1" script="$2" && shift 2 && exec "$node" "$script" "$0" "$@"`
  return [...namespace, 'sh', '-c', command, folder, process.execPath, script, ...args]
}
