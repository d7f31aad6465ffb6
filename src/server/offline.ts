/** Operations for commands that work without a running server. */
export { rebuildProjections } from '../workers/rebuild.ts'
export { verifyLedger } from '../workers/verify.ts'
export { watchAgain } from '../workspace/doctor.ts'
export { sandboxHere } from './commands.ts'
export { examineWorkspace } from './project-files.ts'
