import { existsSync, lstatSync, readdirSync } from 'node:fs'
import { delimiter, dirname, join, relative, sep } from 'node:path'
import type { FoundSandbox, Place } from './confined-place.ts'
import { isInside, realOf } from './paths.ts'
import { type RepositoryGuard, repositoryGuards } from './repository-guard.ts'
import { KEPT_FOLDERS, programsAt, toolchainsIn } from './toolchains.ts'

/**
 * Two rules for mounts. A source is never a link, because bubblewrap would follow it. A mount point is never in a writable
 * folder that outlives the command, because one command could rename its parents for the next. So the home folder is new
 * for each command, and the folders inside the workspace that matter are separate mounts.
 */
type Mount =
  | { type: 'read-only' | 'writable'; target: string; source: string; isOptional?: boolean }
  | { type: 'empty'; target: string }

const PROBE = ['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp']
const NAMESPACES = ['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try']
/** The system's folders; every other folder in the root may be a person's. */
const SYSTEM = /^(bin|boot|dev|etc|gnu|lib\d*|libx?\d*|nix|opt|proc|sbin|snap|sys|usr|var|run|tmp|\.\w+)$/
/** Emptied because they contain other programs' sockets and secrets: a container engine's socket would be a way out. */
const EMPTIED = ['/tmp', '/var/tmp', '/run', '/var/run', '/etc/ssl/private', '/var/lib/docker']
/** Readable by a server that runs as root, and not needed by any build. */
const SECRET_FILES = /^(shadow|gshadow|sudoers)-?$/

export async function createBubblewrap(options: {
  program: string | null
  tryOut(argv: readonly string[]): Promise<number | null>
}): Promise<FoundSandbox> {
  const { program } = options
  if (program === null) return { sandbox: null, why: 'bubblewrap is not installed' }
  const probe = [program, ...PROBE, ...NAMESPACES, '--unshare-net', '--cap-drop', 'ALL', '--', 'true']
  if ((await options.tryOut(probe)) !== 0) {
    return { sandbox: null, why: 'bubblewrap does not work on this system, which may forbid user namespaces' }
  }
  return {
    why: null,
    sandbox: {
      name: 'bubblewrap',
      wrap: (argv, place, { network }) => [
        program,
        '--die-with-parent',
        ...NAMESPACES,
        ...(network ? [] : ['--unshare-net']),
        '--cap-drop',
        'ALL',
        ...mountsOf(place, network).flatMap(asArguments),
        '--chdir',
        place.workspace,
        '--',
        ...argv,
      ],
    },
  }
}

/** Outer folders first, because a mount hides earlier mounts below it. */
function mountsOf(place: Place, network: boolean): Mount[] {
  const { workspace, home, hidden } = place
  const shown = [...programsOutside(place), ...(home === null ? [] : toolchainsIn(home, place.path))]
  const mounts: Mount[] = [
    ...[...personalFolders(), ...EMPTIED].flatMap(emptied),
    ...secretFiles(),
    ...(home === null ? [] : homeMounts(place, home)),
    ...shown.map(optional),
    optional('/run/current-system'),
    ...(network ? [optional('/run/systemd/resolve')] : []),
    // Folders in the home are already hidden, unless they are inside a toolchain folder that is shown.
    ...hidden.filter((folder) => !isGone(folder, home, shown)).flatMap(emptied),
    { type: 'writable', target: workspace, source: workspace },
    ...hidden.flatMap((folder) => hiddenInside(workspace, folder)),
    ...repositoryGuards(workspace).map(asMount),
  ]
  const depth = (mount: Mount) => mount.target.split(sep).length
  // The sort is stable: of two mounts for one folder, the later one wins.
  const ordered = mounts.toSorted((a, b) => depth(a) - depth(b))
  return [{ type: 'read-only', target: '/', source: '/' }, ...ordered]
}

function personalFolders(): string[] {
  return readdirSync('/').flatMap((name) => (SYSTEM.test(name) ? [] : [`/${name}`]))
}

function secretFiles(): Mount[] {
  const keys = namesIn('/etc/ssh')
    .filter((name) => /^ssh_host_.*_key$/.test(name))
    .map((name) => `/etc/ssh/${name}`)
  const accounts = namesIn('/etc')
    .filter((name) => SECRET_FILES.test(name))
    .map((name) => `/etc/${name}`)
  return [...accounts, ...keys].map((target) => ({ type: 'read-only', target, source: '/dev/null' }))
}

function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : []
}

/** Programs on the search path, and the running Node, that are in folders the sandbox empties. */
function programsOutside({ home, path }: Place): string[] {
  const gone = [...personalFolders(), ...EMPTIED]
  const entries = [...path.split(delimiter), dirname(process.execPath)].map(realOf)
  const outside = entries.filter(
    (entry) =>
      gone.some((folder) => entry !== folder && isInside(folder, entry)) && !(home && isInside(home, entry)),
  )
  return outside.flatMap(programsAt)
}

/** A new home for each command, with the folders in which builds keep their downloads. */
function homeMounts({ privateHome, workspace }: Place, home: string): Mount[] {
  const kept = KEPT_FOLDERS.map((name) => ({ source: join(privateHome, name), target: join(home, name) }))
  return [
    { type: 'empty', target: home },
    ...kept
      .filter(({ target }) => !isInside(target, workspace))
      .map((one): Mount => ({ type: 'writable', ...one })),
  ]
}

function isGone(folder: string, home: string | null, shown: readonly string[]): boolean {
  return home !== null && isInside(home, folder) && !shown.some((one) => isInside(one, folder))
}

function hiddenInside(workspace: string, folder: string): Mount[] {
  if (folder === workspace || !isInside(workspace, folder)) return []
  return [...fixed(workspace, dirname(folder)), ...emptied(folder)]
}

/** Mounts each folder from the workspace down to this one, so that none can be renamed. */
function fixed(workspace: string, folder: string): Mount[] {
  const parts = relative(workspace, folder).split(sep).filter(Boolean)
  return parts.flatMap((_, index): Mount[] => {
    const path = join(workspace, ...parts.slice(0, index + 1))
    return isRealFolder(path) ? [{ type: 'writable', target: path, source: path }] : []
  })
}

function emptied(target: string): Mount[] {
  return isRealFolder(target) ? [{ type: 'empty', target }] : []
}

function isRealFolder(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

function optional(path: string): Mount {
  return { type: 'read-only', target: path, source: path, isOptional: true }
}

function asMount({ path, isWritable }: RepositoryGuard): Mount {
  return { type: isWritable ? 'writable' : 'read-only', target: path, source: path }
}

function asArguments(mount: Mount): string[] {
  if (mount.type === 'empty') return ['--tmpfs', mount.target]
  const suffix = mount.isOptional ? '-try' : ''
  const option = mount.type === 'writable' ? `--bind${suffix}` : `--ro-bind${suffix}`
  // Mount new /dev and /proc right after the root, before everything else.
  const base = mount.target === '/' ? ['--dev', '/dev', '--proc', '/proc'] : []
  return [option, mount.source, mount.target, ...base]
}
