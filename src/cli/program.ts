import { Command } from 'commander'
import { chatCommand } from './chat.ts'
import { logCommand } from './log.ts'
import { queueCommand } from './queue.ts'
import { rebuildCommand } from './rebuild.ts'
import { sendCommand } from './send.ts'
import { serveCommand } from './serve.ts'
import { stopCommand } from './stop.ts'
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
  waymark chat                        talk to the agent
  waymark send "fix the tests"        send one message and wait for the answer
  waymark log                         show the conversation that changed last
  waymark verify                      recompute every digest of the ledger`,
    )
  const commands = [
    serveCommand,
    chatCommand,
    sendCommand,
    queueCommand,
    stopCommand,
    logCommand,
    verifyCommand,
    rebuildCommand,
    tokenCommand,
  ]
  for (const command of commands) program.addCommand(command())
  return program
}
