import type { Command } from 'commander'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'

export function stopCommand(): Command {
  return commandWith('stop', ['project', 'dataDir', 'url'])
    .description('Stop what the agent is doing; the next message in the queue starts by itself')
    .argument('[conversation]', 'its id; default: the one that changed last')
    .addHelpText(
      'after',
      `
Examples:
  waymark stop
  waymark stop conv_01m7ge5wdas4rvsp14pjg3nkaf`,
    )
    .action(async (conversation: string | undefined, flags: Record<string, unknown>) => {
      const client = await connect(flags)
      const { run_id } = await client.stop(await conversationId(client, conversation))
      console.log(run_id === null ? 'Nothing is running.' : `Stopping ${run_id}.`)
    })
}
