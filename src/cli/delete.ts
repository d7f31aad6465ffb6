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
    .description('Delete a message and all that came after it, or a whole conversation')
    .argument('[message]', 'the id of a message of yours, as `waymark log` shows it')
    .option('-c, --conversation <id>', 'the conversation; default: the one that changed last')
    .option('--whole', 'the whole conversation; it must be named with -c')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
The files stay as they are; only a working copy of a fork's own goes with the fork, when it is collected. What was deleted can be brought
back for 24 hours, unless the server is set otherwise.

Examples:
  waymark delete msg_01m7ge5wdas4rvsp14pjg3nkaf
  waymark delete --whole -c conv_01m7ge5wdas4rvsp14pjg3nkaf`,
    )
    .action(async (message: string | undefined, flags: DeleteFlags) => {
      const client = await connect(flags)
      if (flags.whole) {
        if (flags.conversation === undefined || message !== undefined) {
          throw new CommandError('--whole deletes a conversation: name it with -c, and no message')
        }
        const gone = await client.deleteConversation(flags.conversation)
        if (flags.json) return printJson(gone)
        console.log(bold('The conversation was deleted.'))
        printCleared(gone.cleared)
        const undo = `waymark undelete -c ${flags.conversation}`
        return console.log(dim(`To undo it until ${localTime(gone.undo_until)}: ${undo}`))
      }
      if (message === undefined) throw new CommandError('which message? `waymark log` shows their ids')
      const id = await conversationId(client, flags.conversation)
      const deleted = await client.deleteMessage(id, message)
      if (flags.json) return printJson(deleted)
      console.log(
        bold(`The conversation now ends at event ${deleted.cut_after}. The files are as they were.`),
      )
      printCleared(deleted.cleared)
      if (deleted.checkpoint_id !== null) {
        const checkpoint = deleted.checkpoint_id.slice(0, SHORT_ID)
        console.log(`To put the files back too: waymark restore ${checkpoint} -c ${id}`)
      }
      console.log(
        dim(`To undo it until ${localTime(deleted.undo_until)}: waymark undelete ${message} -c ${id}`),
      )
    })
}

/** Lists every message that was removed. */
function printCleared(cleared: DeletedMessage['cleared']): void {
  for (const { content } of cleared) console.log(`Taken out of the queue: ${printable(content)}`)
}

export function undeleteCommand(): Command {
  return commandWith('undelete', ['project', 'dataDir', 'url'])
    .description('Bring back a deleted message with all that came after it, or a deleted conversation')
    .argument('[message]', 'the id of the message; without one, the conversation itself')
    .option('-c, --conversation <id>', 'the conversation; default: the one that changed last')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
What was said since the deletion leaves the conversation, and can be brought back the same way.

Examples:
  waymark undelete msg_01m7ge5wdas4rvsp14pjg3nkaf
  waymark undelete -c conv_01m7ge5wdas4rvsp14pjg3nkaf`,
    )
    .action(async (message: string | undefined, flags: DeleteFlags) => {
      const client = await connect(flags)
      if (message === undefined && flags.conversation === undefined) {
        throw new CommandError('what? name a message, or a deleted conversation with -c')
      }
      const id = await conversationId(client, flags.conversation)
      const done = await client.undelete(id, message === undefined ? {} : { message_id: message })
      if (flags.json) return printJson(done)
      console.log(bold(`It is back. The conversation ends at event ${done.head_event_number}.`))
      printCleared(done.cleared)
      if (done.left_message_id !== null) {
        console.log(dim(`What was said since: waymark undelete ${done.left_message_id} -c ${id}`))
      }
    })
}
