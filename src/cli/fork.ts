import { join } from 'node:path'
import { type Command, Option } from 'commander'
import type { Fork } from '../protocol/api/lines.ts'
import { copyOf } from '../protocol/ids.ts'
import { eventNumber } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith, configAbove } from './options.ts'
import { bold, dim, endProgress, printable, printJson, showProgress } from './output.ts'
import { printReport, undoHint } from './restore.ts'

interface ForkFlags extends Record<string, unknown> {
  at?: number
  before?: string
  title?: string
  files: NonNullable<Fork['files']>
  json?: boolean
}

export function forkCommand(): Command {
  return commandWith('fork', ['project', 'dataDir', 'url'])
    .description('Begin another conversation with the history of this one')
    .argument('[conversation]', 'its id; default: the one that changed last')
    .option('--at <event>', 'after this event; default: the last one', eventNumber)
    .addOption(
      new Option('--before <message>', 'just before this message, to say it in other words').conflicts('at'),
    )
    .option('--title <title>', 'how to call it')
    .addOption(
      new Option(
        '--files <what>',
        'keep: leave them alone; restore: put them back to that place first; copy: a working copy of its own',
      )
        .choices(['keep', 'restore', 'copy'])
        .default('keep'),
    )
    .option('--json', 'print the new conversation as JSON')
    .addHelpText(
      'after',
      `
Nothing is copied but, if you ask for it, files. \`waymark log\` shows the events and messages to fork at. To take over what was
done in a fork's own copy: \`waymark approve\` there, then \`waymark restore\` that commit in the other conversation.

Examples:
  waymark fork
  waymark fork --before msg_01m7ge5wdas4rvsp14pjg3nkaf --files restore
  waymark fork --at 42 --title "Another way" --files copy`,
    )
    .action(async (conversation: string | undefined, flags: ForkFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, conversation)
      const { at, before, title, files } = flags
      if (files !== 'keep') showProgress(files === 'copy' ? 'copying the files …' : 'restoring the files …')
      const { restored, ...fork } = await client
        .fork(id, {
          ...(at === undefined ? {} : { event_number: at }),
          ...(before === undefined ? {} : { message_id: before }),
          ...(title === undefined ? {} : { title }),
          files,
        })
        .finally(endProgress)
      if (flags.json) return printJson({ ...fork, restored })
      const place = `${id} at event ${fork.parent?.event_number}`
      console.log(`${bold(fork.id)}  ${printable(fork.title ?? '')}\n${dim(`forked from ${place}`)}`)
      if (restored) {
        printReport(restored, null)
        if (restored.safety_checkpoint !== null) console.log(undoHint(restored.safety_checkpoint, id, flags))
      }
      const copy = copyOf(fork.workspace_id)?.conversationId
      if (copy !== undefined)
        console.log(`Its files are in ${join(configAbove(flags).dataDir, 'workspaces', copy)}`)
      else if (files === 'restore' && !restored) console.log('The files are as they were there.')
      console.log(dim(`Go on in it: waymark chat ${fork.id}`))
    })
}
