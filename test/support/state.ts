import { join } from 'node:path'
import { projectFolder } from '../../src/config.ts'

/** Tests keep their state in the project, so that removing the project removes it. */
export function stateIn(project: string): { XDG_STATE_HOME: string } {
  return { XDG_STATE_HOME: join(project, '.waymark') }
}

/** The data folder of a test's project. */
export function dataIn(project: string): string {
  return projectFolder(join(project, '.waymark', 'waymark'), project)
}

/** Environment for commands that use that state. */
export function commandEnv(project: string): NodeJS.ProcessEnv {
  const { WAYMARK_TOKEN: _, ...environment } = process.env
  return { ...environment, ...stateIn(project) }
}
