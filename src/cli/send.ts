import { readFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import { collect, projectPath } from './arguments.ts'
import { askOnTerminal, denyUnattended } from './ask.ts'
import { connect, conversationOrNew } from './connect.ts'
import { openConversationView } from './conversation-view.ts'
import { commandWith } from './options.ts'
import { CommandError, count, dim } from './output.ts'

interface SendFlags extends Record<string, unknown> {
  conversation?: string
  new?: boolean
  title?: string
  attach?: string[]
  file?: string[]
  wait: boolean
}

export function sendCommand(): Command {
  return commandWith('send', ['project', 'dataDir', 'url'])
    .description('Send one message and print the answer')
    .argument('[message...]', 'what to say; default: what comes in on standard input')
    .option('-c, --conversation <id>', 'the conversation; default: the one that changed last')
    .option('-n, --new', 'begin a new conversation')
    .option('--title <title>', 'the title of a new conversation')
    .option('--attach <file>', 'send this text along; may be given more than once', collect)
    .option(
      '--file <path>',
      'a file whose whole text the model should see; may be given more than once',
      collect,
    )
    .option('--no-wait', 'do not wait for the answer')
    .addHelpText(
      'after',
      `
Examples:
  waymark send "what does main.ts do?"
  git diff | waymark send --new --title review
  waymark send --attach spec.md "does the code do this?"
  waymark send --no-wait "and then run the tests"`,
    )
    .action(async (words: string[], flags: SendFlags) => {
      const content = words.length > 0 ? words.join(' ') : await fromInput()
      if (content.trim() === '') throw new CommandError('there is nothing to send')
      const along = {
        ...(flags.attach ? { attachments: flags.attach.map(attached) } : {}),
        ...(flags.file ? { active_files: flags.file.map((path) => projectPath(flags, path)) } : {}),
      }
      const client = await connect(flags)
      const conversation = await conversationOrNew(client, flags)
      if (!flags.wait) {
        const { run_id, queue_position } = await client.sendMessage(conversation.id, { content, ...along })
        const place = queue_position === 0 ? 'it runs next' : `${count(queue_position, 'run')} before it`
        return console.log(`${run_id} in ${conversation.id} (${place})`)
      }
      let own: string | null = null
      const ask = process.stdin.isTTY ? askOnTerminal : denyUnattended
      const view = await openConversationView(client, conversation, {
        onAsk: (asked) => {
          if (asked.runId === own) void ask(client, conversation.id, asked)
        },
        isShown: (entry) => entry.type === 'run' && entry.runId === own,
      })
      try {
        const { run_id, queue_position } = await view.send(
          content,
          (runId) => {
            own = runId
          },
          along,
        )
        if (queue_position > 0) console.error(dim(`(queued after ${queue_position})`))
        process.once('SIGINT', () => void client.cancelRun(conversation.id, run_id))
        const run = await view.ended(run_id)
        if (!run) throw new CommandError('the message was taken out of the queue')
        if (run?.status !== 'completed') process.exitCode = 1
      } finally {
        view.close()
      }
    })
}

function attached(path: string): { name: string; content: string } {
  const content = textIn(readFileSync(resolve(process.env.INIT_CWD ?? process.cwd(), path)))
  if (content === '' || content.includes('\u0000'))
    throw new CommandError(`${path} is not a text in UTF-8, or an empty one`)
  return { name: basename(path), content }
}

/** Empty for what is none: what would come back as something else is not sent. */
function textIn(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return ''
  }
}

async function fromInput(): Promise<string> {
  if (process.stdin.isTTY) throw new CommandError('say what to send: waymark send "…"')
  return await text(process.stdin)
}
