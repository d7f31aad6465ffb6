import { join } from 'node:path'
import { type Command, Option } from 'commander'
import type { Fork } from '../protocol/api/lines.ts'
import { parseCopyWorkspaceId } from '../protocol/ids.ts'
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
    .description('Fork a conversation: a new one that shares its history')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('--at <event>', 'fork after this event (default: the last one)', eventNumber)
    .addOption(
      new Option('--before <message>', 'fork just before this message, to reword it').conflicts('at'),
    )
    .option('--title <title>', 'title of the fork')
    .addOption(
      new Option(
        '--files <what>',
        'keep: leave them unchanged; restore: restore them to that point; copy: a separate working copy',
      )
        .choices(['keep', 'restore', 'copy'])
        .default('keep'),
    )
    .option('--json', 'print the new conversation as JSON')
    .addHelpText(
      'after',
      `
The history is shared, not copied. \`waymark log\` shows the events and messages to fork at. To bring changes from a fork's
working copy into its parent, run \`waymark adopt\`.

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
      const copy = parseCopyWorkspaceId(fork.workspace_id)?.conversationId
      if (copy !== undefined)
        console.log(`Its files are in ${join(configAbove(flags).dataDir, 'workspaces', copy)}`)
      else if (files === 'restore' && !restored) console.log('The files already match.')
      console.log(dim(`Continue with: waymark chat ${fork.id}`))
    })
}
