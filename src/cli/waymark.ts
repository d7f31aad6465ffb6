#!/usr/bin/env node
import { Command, CommanderError } from 'commander'
import { RequestError } from '../client/index.ts'
import { ConfigError } from '../config.ts'
import { logCommand } from './log.ts'
import { CommandError } from './output.ts'
import { rebuildCommand } from './rebuild.ts'
import { serveCommand } from './serve.ts'
import { tokenCommand } from './token.ts'
import { verifyCommand } from './verify.ts'

const program = new Command('waymark')
  .description('A session server for AI coding agents: one append-only ledger, replayed to the byte.')
  .version('0.1.0')
  .showHelpAfterError('Try --help.')
  .addHelpText(
    'after',
    `
Examples:
  waymark serve                       serve the project in this folder
  waymark log                         show the conversation that changed last
  waymark verify                      recompute every digest of the ledger`,
  )

for (const command of [serveCommand, logCommand, verifyCommand, rebuildCommand, tokenCommand]) {
  program.addCommand(command())
}

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode = 1
  if (isExpected(error)) console.error(`waymark: ${(error as Error).message}`)
  else throw error
}

/** Errors that say all there is to say; a stack would only be in the way. */
function isExpected(error: unknown): boolean {
  return (
    error instanceof ConfigError ||
    error instanceof CommandError ||
    error instanceof RequestError ||
    error instanceof CommanderError ||
    isSystemError(error)
  )
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error
}
