import type { Command } from 'commander'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { printReport, undoHint } from './restore.ts'

interface ResetFlags extends Record<string, unknown> {
  json?: boolean
}

export function resetCommand(): Command {
  return commandWith('reset', ['project', 'dataDir', 'url'])
    .description('Return the files to what was approved last; what is discarded is kept as a checkpoint')
    .argument('[conversation]', 'its id; default: the one that changed last')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Ends with 1 if a file had to be skipped.

Examples:
  waymark diff --stat                 look first
  waymark reset`,
    )
    .action(async (conversation: string | undefined, flags: ResetFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, conversation)
      const done = await client.reset(id)
      if (done.skipped.length > 0) process.exitCode = 1
      if (flags.json) return console.log(JSON.stringify(done, null, 2))
      printReport(done, null)
      console.log(`${id} is now in ${done.new_session}.`)
      console.log(undoHint(done.pre_reset_checkpoint, id, flags))
    })
}
