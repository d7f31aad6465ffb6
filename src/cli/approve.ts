import type { Command } from 'commander'
import { SHORT_ID } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { CommandError, count, printJson } from './output.ts'

interface ApproveFlags extends Record<string, unknown> {
  message?: string
  json?: boolean
}

export function approveCommand(): Command {
  return commandWith('approve', ['project', 'dataDir', 'url'])
    .description('Approve the current files and open the next work session')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('-m, --message <text>', 'a message for this approval')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Examples:
  waymark diff --stat                 review first
  waymark approve -m "the login works"`,
    )
    .action(async (conversation: string | undefined, flags: ApproveFlags) => {
      const client = await connect(flags)
      if (conversation !== undefined && !conversation.startsWith('conv_')) {
        throw new CommandError(`${conversation} is not a conversation id; to add a message, use -m`)
      }
      const id = await conversationId(client, conversation)
      const done = await client.approve(id, flags.message === undefined ? {} : { message: flags.message })
      if (flags.json) return printJson(done)
      const commit = done.approved_commit.slice(0, SHORT_ID)
      const what =
        done.commits_approved === 0
          ? 'No new checkpoints; approved'
          : `Approved ${count(done.commits_approved, 'checkpoint')}`
      console.log(`${what} as ${commit}; ${id} is now in ${done.new_session}.`)
    })
}
