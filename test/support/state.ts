import { join } from 'node:path'
import { projectFolder } from '../../src/config.ts'

/** Tests keep their state in the project, so that it goes with it. */
export function stateIn(project: string): { XDG_STATE_HOME: string } {
  return { XDG_STATE_HOME: join(project, '.waymark') }
}

/** Where the data of a test's project is. */
export function dataIn(project: string): string {
  return projectFolder(join(project, '.waymark', 'waymark'), project)
}

/** The environment for commands that look for it there. */
export function commandEnv(project: string): NodeJS.ProcessEnv {
  const { WAYMARK_TOKEN: _, ...environment } = process.env
  return { ...environment, ...stateIn(project) }
}
