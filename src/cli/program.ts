import { Command } from 'commander'
import { VERSION } from '../protocol/version.ts'
import { acpCommand } from './acp.ts'
import { agentsCommand } from './agents.ts'
import { approveCommand } from './approve.ts'
import { auditCommand } from './audit.ts'
import { backupCommand, restoreBackupCommand } from './backup.ts'
import { chatCommand } from './chat.ts'
import { checkpointsCommand } from './checkpoints.ts'
import { compareCommand } from './compare.ts'
import { contextCommand } from './context.ts'
import { conversationsCommand } from './conversations.ts'
import { deleteCommand, undeleteCommand } from './delete.ts'
import { diffCommand } from './diff.ts'
import { doctorCommand } from './doctor.ts'
import { exportCommand, importCommand } from './export.ts'
import { forkCommand } from './fork.ts'
import { gcCommand } from './gc.ts'
import { logCommand } from './log.ts'
import { memoryCommand } from './memory.ts'
import { modelsCommand } from './models.ts'
import { queueCommand } from './queue.ts'
import { rebuildCommand } from './rebuild.ts'
import { resetCommand } from './reset.ts'
import { restoreCommand } from './restore.ts'
import { rulesCommand } from './rules.ts'
import { runCommand } from './run.ts'
import { sendCommand } from './send.ts'
import { serveCommand } from './serve.ts'
import { stopCommand } from './stop.ts'
import { tokenCommand } from './token.ts'
import { treeCommand } from './tree.ts'
import { verifyCommand } from './verify.ts'

export function createProgram(): Command {
  const program = new Command('waymark')
    .description('A session server for AI coding agents: one append-only ledger, replayed to the byte.')
    .version(VERSION)
    .showHelpAfterError('Try --help.')
    .addHelpText(
      'after',
      `
Without a command, Waymark serves the project in this folder and opens the page.

Examples:
  waymark serve                       serve the project in this folder
  waymark chat                        chat with the agent
  waymark send "fix the tests"        send one message and wait for the answer
  waymark run -- codex                record an agent in its own terminal
  waymark log                         show the most recently changed conversation
  waymark fork --before msg_01m7…     fork to reword a message
  waymark diff                        show changes since the last approval
  waymark restore 3f2a91c             restore the files to a checkpoint
  waymark verify                      recompute all digests of the ledger`,
    )
  const commands = [
    serveCommand,
    chatCommand,
    sendCommand,
    queueCommand,
    stopCommand,
    conversationsCommand,
    logCommand,
    forkCommand,
    treeCommand,
    compareCommand,
    deleteCommand,
    undeleteCommand,
    contextCommand,
    memoryCommand,
    modelsCommand,
    agentsCommand,
    runCommand,
    acpCommand,
    checkpointsCommand,
    diffCommand,
    restoreCommand,
    approveCommand,
    resetCommand,
    doctorCommand,
    verifyCommand,
    rebuildCommand,
    exportCommand,
    importCommand,
    backupCommand,
    restoreBackupCommand,
    gcCommand,
    auditCommand,
    rulesCommand,
    tokenCommand,
  ]
  for (const command of commands) program.addCommand(command())
  return program
}
