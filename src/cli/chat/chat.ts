import { createInterface } from 'node:readline'
import type { Command } from 'commander'
import type { Client } from '../../client/index.ts'
import type { Conversation } from '../../protocol/api/conversations.ts'
import { denyUnattended } from '../ask.ts'
import { AGENT_HELP, connect, conversationOrNew, MODEL_HELP, modeOption } from '../connect.ts'
import { openConversationView } from '../conversation-session.ts'
import { commandWith } from '../options.ts'
import { chatOnTerminal } from './terminal-chat.ts'

interface ChatFlags extends Record<string, unknown> {
  new?: boolean
  title?: string
  model?: string
  agent?: string
  mode?: Conversation['mode']
}

export function chatCommand(): Command {
  return commandWith('chat', ['project', 'dataDir', 'url'])
    .description('Chat with the agent in the terminal')
    .argument('[conversation]', 'conversation id (default: the most recently changed, or a new one)')
    .option('-n, --new', 'start a new conversation')
    .option('--title <title>', 'the title of a new conversation')
    .option('-m, --model <name>', MODEL_HELP)
    .option('-a, --agent <name>', AGENT_HELP)
    .addOption(modeOption())
    .addHelpText(
      'after',
      `
The input line stays below the output. Messages that you send while a run is active are queued; pasted text may have many
lines; Alt-Enter begins a new line. @ and Tab complete file names, / and Tab complete commands, /help lists them. One key
answers an approval. Ctrl-C clears the line, then stops the run, then leaves; the run of a chat that you leave continues.

Without a terminal, each input line is a message, sent after the previous one is answered; a line that ends in \\ continues
on the next line; calls that need approval are denied.

Examples:
  waymark chat
  waymark chat --new --title "faster start"
  printf 'list the files\\n' | waymark chat`,
    )
    .action(async (conversation: string | undefined, flags: ChatFlags) => {
      const client = await connect(flags)
      const found = await conversationOrNew(client, { ...flags, conversation })
      await (process.stdin.isTTY && process.stdout.isTTY
        ? chatOnTerminal(client, found)
        : chatWithInput(client, found))
    })
}

/** Sends each input line after the previous one is answered. */
async function chatWithInput(client: Client, conversation: Conversation): Promise<void> {
  const input = createInterface({ input: process.stdin })
  // Start listening now, so that piped input that arrives before the view is ready is not lost.
  const lines = input[Symbol.asyncIterator]()
  const own = new Set<string>()
  const view = await openConversationView(client, conversation, {
    // Calls of other runs wait for the people who started them.
    onAsk: (ask) => {
      if (own.has(ask.runId)) void denyUnattended(client, conversation.id, ask)
    },
  })
  let unfinished = ''
  let status = 'completed'
  try {
    for await (const line of lines) {
      if (line.endsWith('\\')) {
        unfinished += `${line.slice(0, -1)}\n`
        continue
      }
      const content = unfinished + line
      unfinished = ''
      if (content.trim() === '') continue
      const { run_id } = await view.send(content, (runId) => own.add(runId))
      status = (await view.ended(run_id))?.status ?? 'removed'
    }
  } finally {
    input.close()
    view.close()
  }
  if (status !== 'completed') process.exitCode = 1
}
