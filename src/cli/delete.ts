import type { Command } from 'commander'
import type { DeletedMessage } from '../protocol/api/lines.ts'
import { SHORT_ID } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, dim, localTime, printable, printJson } from './output.ts'

interface DeleteFlags extends Record<string, unknown> {
  conversation?: string
  whole?: boolean
  json?: boolean
}

export function deleteCommand(): Command {
  return commandWith('delete', ['project', 'dataDir', 'url'])
    .description('Delete a message and everything after it, or a whole conversation')
    .argument('[message]', 'id of a user message, as `waymark log` shows it')
    .option('-c, --conversation <id>', 'conversation id (default: the most recently changed)')
    .option('--whole', 'delete the whole conversation named with -c')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
The project's files are not changed. A fork's own working copy is removed when the deleted fork is collected. Deletions
can be undone for 24 hours by default (--retention-hours of the server).

Examples:
  waymark delete msg_01m7ge5wdas4rvsp14pjg3nkaf
  waymark delete --whole -c conv_01m7ge5wdas4rvsp14pjg3nkaf`,
    )
    .action(async (message: string | undefined, flags: DeleteFlags) => {
      const client = await connect(flags)
      if (flags.whole) {
        if (flags.conversation === undefined || message !== undefined) {
          throw new CommandError('--whole deletes a conversation: name it with -c, and give no message')
        }
        const gone = await client.deleteConversation(flags.conversation)
        if (flags.json) return printJson(gone)
        console.log(bold('Conversation deleted.'))
        printCleared(gone.cleared)
        const undo = `waymark undelete -c ${flags.conversation}`
        return console.log(dim(`To undo until ${localTime(gone.undo_until)}: ${undo}`))
      }
      if (message === undefined) throw new CommandError('name a message; `waymark log` shows their ids')
      const id = await conversationId(client, flags.conversation)
      const deleted = await client.deleteMessage(id, message)
      if (flags.json) return printJson(deleted)
      console.log(
        bold(`Deleted. The conversation now ends at event ${deleted.cut_after}. The files were not changed.`),
      )
      printCleared(deleted.cleared)
      if (deleted.checkpoint_id !== null) {
        const checkpoint = deleted.checkpoint_id.slice(0, SHORT_ID)
        console.log(`To restore the files too: waymark restore ${checkpoint} -c ${id}`)
      }
      console.log(dim(`To undo until ${localTime(deleted.undo_until)}: waymark undelete ${message} -c ${id}`))
    })
}

/** Lists the messages that were removed from the queue. */
export function printCleared(cleared: DeletedMessage['cleared']): void {
  for (const { content } of cleared) console.log(`Removed from the queue: ${printable(content)}`)
}

export function undeleteCommand(): Command {
  return commandWith('undelete', ['project', 'dataDir', 'url'])
    .description('Undelete a message with everything after it, or a conversation')
    .argument('[message]', 'message id (default: the conversation named with -c)')
    .option('-c, --conversation <id>', 'conversation id (default: the most recently changed)')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Newer messages leave the conversation, and can be undeleted in the same way.

Examples:
  waymark undelete msg_01m7ge5wdas4rvsp14pjg3nkaf
  waymark undelete -c conv_01m7ge5wdas4rvsp14pjg3nkaf`,
    )
    .action(async (message: string | undefined, flags: DeleteFlags) => {
      const client = await connect(flags)
      if (message === undefined && flags.conversation === undefined) {
        throw new CommandError('name a message, or a deleted conversation with -c')
      }
      const id = await conversationId(client, flags.conversation)
      const done = await client.undelete(id, message === undefined ? {} : { message_id: message })
      if (flags.json) return printJson(done)
      console.log(bold(`Undeleted. The conversation now ends at event ${done.head_event_number}.`))
      printCleared(done.cleared)
      if (done.left_message_id !== null) {
        console.log(dim(`To return to the newer messages: waymark undelete ${done.left_message_id} -c ${id}`))
      }
    })
}
