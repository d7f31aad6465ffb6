import { readFileSync } from 'node:fs'
import { basename, extname, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import { callerFolder } from '../config.ts'
import type { Conversation } from '../protocol/api/conversations.ts'
import { collect, projectPath } from './arguments.ts'
import { askOnTerminal, denyUnattended } from './ask.ts'
import { AGENT_HELP, connect, conversationOrNew, MODEL_HELP, modeOption } from './connect.ts'
import { openConversationView } from './conversation-session.ts'
import { commandWith } from './options.ts'
import { CommandError, count, dim, printJson } from './output.ts'

interface SendFlags extends Record<string, unknown> {
  conversation?: string
  new?: boolean
  title?: string
  model?: string
  agent?: string
  mode?: Conversation['mode']
  attach?: string[]
  file?: string[]
  wait: boolean
  json?: boolean
}

export function sendCommand(): Command {
  return commandWith('send', ['project', 'dataDir', 'url'])
    .description('Send one message and print the answer')
    .argument('[message...]', 'the message (default: standard input)')
    .option('-c, --conversation <id>', 'conversation id (default: the most recently changed)')
    .option('-n, --new', 'start a new conversation')
    .option('--title <title>', 'the title of a new conversation')
    .option('-m, --model <name>', MODEL_HELP)
    .option('-a, --agent <name>', AGENT_HELP)
    .addOption(modeOption())
    .option('--attach <file>', 'attach this text file or image; repeatable', collect)
    .option('--file <path>', 'send the full text of this project file to the model; repeatable', collect)
    .option('--no-wait', 'do not wait for the answer')
    .option('--json', 'print the result as JSON: the run, its status and the answer')
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
      if (content.trim() === '') throw new CommandError('the message is empty')
      const along = {
        ...(flags.attach ? { attachments: flags.attach.map(attached) } : {}),
        ...(flags.file ? { active_files: flags.file.map((path) => projectPath(flags, path)) } : {}),
      }
      const client = await connect(flags)
      const conversation = await conversationOrNew(client, flags)
      if (!flags.wait) {
        const { run_id, queue_position } = await client.sendMessage(conversation.id, { content, ...along })
        if (flags.json) return printJson({ conversation_id: conversation.id, run_id, queue_position })
        const place = queue_position === 0 ? 'runs next' : `${count(queue_position, 'run')} before it`
        return console.log(`${run_id} in ${conversation.id} (${place})`)
      }
      let own: string | null = null
      const ask = process.stdin.isTTY ? askOnTerminal : denyUnattended
      const view = await openConversationView(client, conversation, {
        onAsk: (asked) => {
          if (asked.runId === own) void ask(client, conversation.id, asked)
        },
        isShown: (entry) => !flags.json && entry.type === 'run' && entry.runId === own,
      })
      try {
        const { run_id, queue_position } = await view.send(
          content,
          (runId) => {
            own = runId
          },
          along,
        )
        if (queue_position > 0) {
          console.error(dim(`(queued after ${queue_position})`))
          if (conversation.is_asking) console.error(dim(WAITS))
        }
        process.once('SIGINT', () => void client.cancelRun(conversation.id, run_id))
        const run = await view.ended(run_id)
        if (!run) throw new CommandError('the message was removed from the queue')
        if (run.status !== 'completed') process.exitCode = 1
        if (flags.json) {
          const { status, final } = run
          const answer = final?.response_text ?? null
          printJson({ conversation_id: conversation.id, run_id, status, response_text: answer })
        }
      } finally {
        view.close()
      }
    })
}

const WAITS = 'The current run waits for your approval: answer it in the page, or with `waymark chat`.'

function attached(path: string): { name: string; content: string } {
  const bytes = readFileSync(resolve(callerFolder(), path))
  const type = imageTypes[extname(path).toLowerCase()]
  if (type !== undefined) {
    return { name: basename(path), content: `data:${type};base64,${bytes.toString('base64')}` }
  }
  const content = textIn(bytes)
  if (content === '' || content.includes('\u0000'))
    throw new CommandError(`${path} is empty or not a UTF-8 text file`)
  return { name: basename(path), content }
}

const imageTypes: Record<string, string> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
}

/** Empty for bytes that are not UTF-8, which would not survive the round trip. */
function textIn(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return ''
  }
}

async function fromInput(): Promise<string> {
  if (process.stdin.isTTY) throw new CommandError('no message given; use: waymark send "…"')
  return await text(process.stdin)
}
