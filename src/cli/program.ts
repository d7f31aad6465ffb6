import { Command } from 'commander'
import { VERSION } from '../protocol/version.ts'

/** Every command, loaded when it is needed: those that open the store load the whole server. */
const commands: Record<string, () => Promise<Command>> = {
  serve: async () => (await import('./serve.ts')).serveCommand(),
  chat: async () => (await import('./chat/chat.ts')).chatCommand(),
  send: async () => (await import('./send.ts')).sendCommand(),
  queue: async () => (await import('./queue.ts')).queueCommand(),
  stop: async () => (await import('./stop.ts')).stopCommand(),
  conversations: async () => (await import('./conversations.ts')).conversationsCommand(),
  rename: async () => (await import('./rename.ts')).renameCommand(),
  search: async () => (await import('./search.ts')).searchCommand(),
  log: async () => (await import('./log.ts')).logCommand(),
  fork: async () => (await import('./fork.ts')).forkCommand(),
  tree: async () => (await import('./tree.ts')).treeCommand(),
  compare: async () => (await import('./compare.ts')).compareCommand(),
  delete: async () => (await import('./delete.ts')).deleteCommand(),
  undelete: async () => (await import('./delete.ts')).undeleteCommand(),
  context: async () => (await import('./context.ts')).contextCommand(),
  memory: async () => (await import('./memory.ts')).memoryCommand(),
  models: async () => (await import('./models.ts')).modelsCommand(),
  agents: async () => (await import('./agents.ts')).agentsCommand(),
  run: async () => (await import('./run.ts')).runCommand(),
  acp: async () => (await import('./acp.ts')).acpCommand(),
  checkpoints: async () => (await import('./checkpoints.ts')).checkpointsCommand(),
  diff: async () => (await import('./diff.ts')).diffCommand(),
  blame: async () => (await import('./blame.ts')).blameCommand(),
  restore: async () => (await import('./restore.ts')).restoreCommand(),
  adopt: async () => (await import('./adopt.ts')).adoptCommand(),
  approve: async () => (await import('./approve.ts')).approveCommand(),
  reset: async () => (await import('./reset.ts')).resetCommand(),
  undo: async () => (await import('./undo.ts')).undoCommand(),
  redo: async () => (await import('./undo.ts')).redoCommand(),
  ops: async () => (await import('./undo.ts')).opsCommand(),
  stats: async () => (await import('./stats.ts')).statsCommand(),
  doctor: async () => (await import('./doctor.ts')).doctorCommand(),
  verify: async () => (await import('./verify.ts')).verifyCommand(),
  rebuild: async () => (await import('./rebuild.ts')).rebuildCommand(),
  share: async () => (await import('./share.ts')).shareCommand(),
  export: async () => (await import('./export.ts')).exportCommand(),
  import: async () => (await import('./export.ts')).importCommand(),
  backup: async () => (await import('./backup.ts')).backupCommand(),
  'restore-backup': async () => (await import('./backup.ts')).restoreBackupCommand(),
  gc: async () => (await import('./gc.ts')).gcCommand(),
  audit: async () => (await import('./audit.ts')).auditCommand(),
  rules: async () => (await import('./rules.ts')).rulesCommand(),
  completion: async () => (await import('./completion.ts')).completionCommand(() => createProgram()),
  token: async () => (await import('./token.ts')).tokenCommand(),
}

/** The program with all its commands, or, when the first argument names one, with only that one. */
export async function createProgram(args: readonly string[] = []): Promise<Command> {
  const program = new Command('waymark')
    .description('A session server for AI coding agents: one append-only ledger, replayed byte for byte.')
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
  const [first = ''] = args
  const needed = Object.hasOwn(commands, first)
    ? [first]
    : args.length > 0 && isVersion(first)
      ? []
      : Object.keys(commands)
  for (const load of needed.flatMap((name) => commands[name] ?? [])) program.addCommand(await load())
  return program
}

function isVersion(argument: string): boolean {
  return argument === '--version' || argument === '-V'
}
