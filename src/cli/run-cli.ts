import { ConnectionError, RequestError } from '../client/index.ts'
import { ConfigError } from '../config.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { InUseElsewhere } from '../trust.ts'
import { CommandError } from './output.ts'
import { createProgram } from './program.ts'

export async function runCli(): Promise<void> {
  // The reader may close the pipe: `waymark log | head`.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit(0)
  })
  try {
    // `npx waymark` in a project is all that a person needs to type.
    const given = process.argv.slice(2)
    const args = given.length > 0 ? given : ['serve', '--open']
    await (await createProgram(args)).parseAsync(args, { from: 'user' })
  } catch (error) {
    process.exitCode = 1
    if (!isExpected(error)) throw error
    console.error(`waymark: ${sentence(error as Error)}`)
    if (error instanceof RequestError && error.code === 'conversation_not_found') {
      console.error('If it was deleted: waymark undelete -c <its id>')
    }
  }
}

/** Errors whose message is enough; no stack is printed. */
function isExpected(error: unknown): boolean {
  return (
    error instanceof ConfigError ||
    error instanceof CommandError ||
    error instanceof RequestError ||
    error instanceof ConnectionError ||
    error instanceof WaymarkError ||
    error instanceof InUseElsewhere ||
    (error instanceof Error && 'syscall' in error)
  )
}

function sentence(error: Error): string {
  if (error instanceof RequestError && error.code === 'unauthorized') {
    return 'the server rejected the token; check WAYMARK_TOKEN, or the token file that `waymark serve` names'
  }
  return error.message
}
