import type { Command } from 'commander'
import { wholeNumber } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { CommandError, dim, localTime, printable, printJson } from './output.ts'

interface QueueFlags extends Record<string, unknown> {
  remove?: string
  edit?: string
  move?: string
  message?: string
  position?: number
  json?: boolean
}

const SHOWN_CHARACTERS = 70

export function queueCommand(): Command {
  return commandWith('queue', ['project', 'dataDir', 'url'])
    .description('Show the active run and the waiting messages')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('--remove <run>', 'remove this waiting message')
    .option('--edit <run>', 'replace the text of this waiting message with --message')
    .option('-m, --message <text>', 'the new text')
    .option('--move <run>', 'move this waiting message to --position')
    .option('--position <n>', 'position among the waiting messages, from 1', wholeNumber)
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
Examples:
  waymark queue
  waymark queue --edit run_01m7ge5wdas4rvsp14pjg3nkaf -m "and the tests, please"
  waymark queue --move run_01m7ge5wdas4rvsp14pjg3nkaf --position 1
  waymark queue --remove run_01m7ge5wdas4rvsp14pjg3nkaf`,
    )
    .action(async (conversation: string | undefined, flags: QueueFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, conversation)
      if (flags.remove !== undefined) {
        await client.removeQueued(id, flags.remove)
        return console.log(`Removed ${flags.remove} from the queue.`)
      }
      const changed = flags.edit ?? flags.move
      if (changed !== undefined) {
        const { message: content, position } = flags
        if (content === undefined && position === undefined) {
          throw new CommandError('--edit needs --message, and --move needs --position')
        }
        await client.editQueued(id, changed, {
          ...(content === undefined ? {} : { content }),
          ...(position === undefined ? {} : { position }),
        })
      }
      const [queue, { is_asking }] = [await client.queue(id), await client.conversation(id)]
      if (flags.json) return printJson({ ...queue, is_asking })
      if (queue.active === null && queue.items.length === 0) return console.log('The queue is empty.')
      if (queue.active)
        console.log(`running  ${queue.active.run_id}  ${dim(`since ${localTime(queue.active.started_at)}`)}`)
      if (is_asking)
        console.log('         waiting for your approval: answer in the page, or with `waymark chat`')
      for (const { run_id, content, position } of queue.items) {
        console.log(`${String(position).padStart(7)}  ${run_id}  ${shortened(content)}`)
      }
    })
}

function shortened(content: string): string {
  const line = printable(content.replaceAll(/\s+/g, ' '))
  return line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS - 1)}…` : line
}
