import { Command } from 'commander'
import { logCommand } from './log.ts'
import { rebuildCommand } from './rebuild.ts'
import { serveCommand } from './serve.ts'
import { tokenCommand } from './token.ts'
import { verifyCommand } from './verify.ts'

export function createProgram(): Command {
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
  return program
}
