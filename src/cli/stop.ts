import type { Command } from 'commander'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { printJson } from './output.ts'

export function stopCommand(): Command {
  return commandWith('stop', ['project', 'dataDir', 'url'])
    .description('Stop the active run; the next message in the queue starts automatically')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('--json', 'print the result as JSON')
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
      if (flags.json) return printJson({ run_id })
      console.log(run_id === null ? 'Nothing is running.' : `Stopping ${run_id}.`)
    })
}
