import { existsSync, lstatSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { isInside, realOf } from './paths.ts'
import type { FoundSandbox, Place } from './sandbox.ts'
import { toolchainsIn } from './toolchains.ts'

type Mount =
  | { type: 'read-only' | 'writable'; target: string; source: string; isOptional?: boolean }
  | { type: 'empty'; target: string }

const PROBE = ['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp']
const NAMESPACES = ['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try']
const HOMES = ['/home', '/root']
/** Sockets of other programs: a container engine's would be a way out. */
const SOCKETS = ['/run', '/var/run']
/** Readable by a server that runs as root, and of no use to a build. */
const SECRET_FILES = [
  '/etc/shadow',
  '/etc/gshadow',
  '/etc/sudoers',
  '/etc/ssh/ssh_host_ed25519_key',
  '/etc/ssh/ssh_host_rsa_key',
]

export async function createBubblewrap(options: {
  program: string | null
  tryOut(argv: readonly string[]): Promise<number | null>
}): Promise<FoundSandbox> {
  const { program } = options
  if (program === null) return { sandbox: null, why: 'bubblewrap is not installed' }
  const probe = [program, ...PROBE, ...NAMESPACES, '--unshare-net', '--cap-drop', 'ALL', '--', 'true']
  if ((await options.tryOut(probe)) !== 0) {
    return { sandbox: null, why: 'bubblewrap does not work here: the system may forbid user namespaces' }
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

/** Outer folders first: what is mounted later hides what lies below it. */
function mountsOf(place: Place, network: boolean): Mount[] {
  const { workspace, home, privateHome, hidden, path } = place
  const mounts: Mount[] = [
    ...['/tmp', '/var/tmp', ...HOMES, ...SOCKETS].flatMap(emptied),
    ...SECRET_FILES.filter((file) => existsSync(file)).map(
      (target): Mount => ({ type: 'read-only', target, source: '/dev/null' }),
    ),
    { type: 'read-only', target: '/run/current-system', source: '/run/current-system', isOptional: true },
    ...(network
      ? [
          {
            type: 'read-only',
            target: '/run/systemd/resolve',
            source: '/run/systemd/resolve',
            isOptional: true,
          } as const,
        ]
      : []),
    ...(home === null ? [] : homeMounts(home, privateHome, path)),
    // Below the home they are gone already, and an empty folder there would be made in the private one.
    ...hidden
      .filter((folder) => existsSync(folder) && !(home !== null && isInside(home, folder)))
      .flatMap(emptied),
    { type: 'writable', target: workspace, source: workspace },
    ...hidden.filter((folder) => folder !== workspace && isInside(workspace, folder)).flatMap(emptied),
    ...repositoryMounts(workspace),
  ]
  const depth = (mount: Mount) => (mount.target === '/' ? 0 : mount.target.split(sep).length)
  // Stable: of two for one folder the later one wins.
  return [{ type: 'read-only', target: '/', source: '/' }, ...mounts.toSorted((a, b) => depth(a) - depth(b))]
}

function homeMounts(home: string, privateHome: string, path: string): Mount[] {
  const toolchains = toolchainsIn(home, path).map(
    (folder): Mount => ({ type: 'read-only', target: folder, source: folder, isOptional: true }),
  )
  return [{ type: 'writable', target: home, source: privateHome }, ...toolchains]
}

function emptied(target: string): Mount[] {
  const found = lstatSync(target, { throwIfNoEntry: false })
  return found?.isDirectory() ? [{ type: 'empty', target: realOf(target) }] : []
}

/**
 * What git executes stays as it is. The git directory is a mount of its own, so that it can't be renamed and replaced;
 * where one of these files does not exist yet, all of it is read-only, because a file can't be kept from being made.
 */
function repositoryMounts(workspace: string): Mount[] {
  const folder = join(workspace, '.git')
  if (!lstatSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    return existsSync(folder) ? [readOnly(folder)] : []
  }
  const [config, hooks, own] = ['config', 'hooks', 'config.worktree'].map((name) => join(folder, name))
  if (!config || !hooks || !own) return []
  const needsOwn = isThere(config) && /worktreeconfig/i.test(readFileSync(config, 'utf8'))
  if (!isThere(config) || !isThere(hooks) || (needsOwn && !isThere(own))) return [readOnly(folder)]
  const guarded = [config, hooks, own, join(folder, 'modules'), join(folder, 'worktrees')]
  return [{ type: 'writable', target: folder, source: folder }, ...guarded.filter(isThere).map(readOnly)]
}

function readOnly(path: string): Mount {
  return { type: 'read-only', target: path, source: path }
}

/** A link in its place is not followed: it could be replaced. */
function isThere(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false })
  return found !== undefined && !found.isSymbolicLink()
}

function asArguments(mount: Mount): string[] {
  if (mount.type === 'empty') return ['--tmpfs', mount.target]
  const suffix = mount.isOptional ? '-try' : ''
  const option = mount.type === 'writable' ? `--bind${suffix}` : `--ro-bind${suffix}`
  // These come with the system's own, right after the root.
  const base = mount.target === '/' ? ['--dev', '/dev', '--proc', '/proc'] : []
  return [option, mount.source, mount.target, ...base]
}
