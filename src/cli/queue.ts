import type { Command } from 'commander'
import { wholeNumber } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { CommandError, dim, printable, printJson } from './output.ts'

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
    .description('Show what the agent is working on and which messages wait')
    .argument('[conversation]', 'its id; default: the one that changed last')
    .option('--remove <run>', 'take this waiting message out')
    .option('--edit <run>', 'change the words of this waiting message, to those of --message')
    .option('-m, --message <text>', 'the new words')
    .option('--move <run>', 'move this waiting message, to --position')
    .option('--position <n>', 'its place among those that wait, counted from 1', wholeNumber)
    .option('--json', 'print it as JSON')
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
        return console.log(`Took ${flags.remove} out of the queue.`)
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
      const queue = await client.queue(id)
      if (flags.json) return printJson(queue)
      if (queue.active === null && queue.items.length === 0) return console.log('The queue is empty.')
      if (queue.active)
        console.log(`running  ${queue.active.run_id}  ${dim(`since ${queue.active.started_at}`)}`)
      for (const { run_id, content, position } of queue.items) {
        console.log(`${String(position).padStart(7)}  ${run_id}  ${shortened(content)}`)
      }
    })
}

function shortened(content: string): string {
  const line = printable(content.replaceAll(/\s+/g, ' '))
  return line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS - 1)}…` : line
}
