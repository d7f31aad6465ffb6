/**
 * Runs commands and tool servers in isolation. Inside, the workspace is writable except for what git executes, and the
 * system is read-only. The home folder is private to the project and shows the person's toolchains. Waymark's data and other
 * people's files are hidden, the network is off unless granted, and no process outlives the command.
 */
export interface Sandbox {
  name: 'bubblewrap' | 'sandbox-exec'
  /** The command line that runs `argv` inside. */
  wrap(argv: readonly string[], place: Place, options: { network: boolean }): string[]
}

export interface Place {
  /** The working copy; links resolved. */
  workspace: string
  /** The person's home folder; null if it doesn't exist, and then it is `/tmp` inside. */
  home: string | null
  /** The folder that replaces the home folder inside. */
  privateHome: string
  /** Folders to hide: Waymark's data and configuration. */
  hidden: readonly string[]
  /** The search path for programs, used to find toolchains in the home folder. */
  path: string
}

export type FoundSandbox = { sandbox: Sandbox; why: null } | { sandbox: null; why: string }
