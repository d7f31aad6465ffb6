import { join } from 'node:path'
import type { FoundSandbox, Place } from './confined-place.ts'
import { toolchainsIn } from './toolchains.ts'

/** macOS: rules for `sandbox-exec`. The last matching rule wins. */
export async function createSeatbelt(options: {
  program: string | null
  tryOut(argv: readonly string[]): Promise<number | null>
}): Promise<FoundSandbox> {
  const { program } = options
  if (program === null) return { sandbox: null, why: 'sandbox-exec is not installed' }
  const probe = [program, '-p', '(version 1)(allow default)', '/usr/bin/true']
  if ((await options.tryOut(probe)) !== 0) return { sandbox: null, why: 'sandbox-exec does not work here' }
  return {
    why: null,
    sandbox: {
      name: 'sandbox-exec',
      wrap: (argv, place, { network }) => [program, '-p', profileOf(place, network), ...argv],
    },
  }
}

export function profileOf(place: Place, network: boolean): string {
  const { workspace, home, privateHome, hidden, path } = place
  const below = (folder: string) => `(subpath ${JSON.stringify(folder)})`
  const git = ['config', 'hooks', 'config.worktree', 'commondir', 'modules', 'worktrees'].map((name) =>
    join(workspace, '.git', name),
  )
  return [
    '(version 1)',
    '(allow default)',
    `(deny file-read* ${['/Users', ...(home === null ? [] : [home])].map(below).join(' ')})`,
    ...(home === null
      ? []
      : [
          `(allow file-read-metadata ${below(home)})`,
          `(allow file-read* ${toolchainsIn(home, path).map(below).join(' ')})`,
        ]),
    `(deny file-read* ${hidden.map(below).join(' ')})`,
    '(deny file-write*)',
    '(allow file-write* (subpath "/dev") (subpath "/private/tmp") (subpath "/private/var/folders"))',
    `(allow file-read* file-write* ${below(workspace)} ${below(privateHome)})`,
    `(deny file-write* ${git.map(below).join(' ')} (literal ${JSON.stringify(join(workspace, '.git'))}))`,
    ...(network ? [] : ['(deny network*)']),
  ].join('\n')
}
