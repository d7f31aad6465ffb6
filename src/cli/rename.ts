import type { Command } from 'commander'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { printable, printJson } from './output.ts'

interface RenameFlags extends Record<string, unknown> {
  conversation?: string
  json?: boolean
}

export function renameCommand(): Command {
  return commandWith('rename', ['project', 'dataDir', 'url'])
    .description('Rename a conversation; `waymark undo` restores the earlier title')
    .argument('<title...>', 'the new title')
    .option('-c, --conversation <id>', 'conversation id (default: the most recently changed)')
    .option('--json', 'print the conversation as JSON')
    .addHelpText(
      'after',
      `
Examples:
  waymark rename Basket totals
  waymark rename -c conv_01m7… "Basket totals"`,
    )
    .action(async (words: string[], flags: RenameFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, flags.conversation)
      const renamed = await client.changeConversation(id, { title: words.join(' ') })
      if (flags.json) return printJson(renamed)
      console.log(`${id} is now “${printable(renamed.title ?? '')}”.`)
    })
}
