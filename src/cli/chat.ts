import { createInterface, type Interface } from 'node:readline'
import type { Command } from 'commander'
import { type Client, RequestError } from '../client/index.ts'
import type { Conversation } from '../protocol/api.ts'
import { answer, questionFor } from './ask.ts'
import { connect, conversationOrNew } from './connect.ts'
import { type ConversationView, openConversationView, type PendingAsk } from './conversation-view.ts'
import { commandWith } from './options.ts'
import { bold, dim, printable } from './output.ts'

interface ChatFlags extends Record<string, unknown> {
  new?: boolean
  title?: string
}

export function chatCommand(): Command {
  return commandWith('chat', ['project', 'dataDir', 'url'])
    .description('Talk to the agent; Ctrl-C stops what it is doing, again leaves')
    .argument('[conversation]', 'its id; default: the one that changed last, or a new one')
    .option('-n, --new', 'begin a new conversation')
    .option('--title <title>', 'the title of a new conversation')
    .addHelpText(
      'after',
      `
While the agent works, what you type waits for its turn. A line that ends in \\ goes on in the next.

Examples:
  waymark chat
  waymark chat --new --title "faster start"
  printf 'list the files\\n' | waymark chat`,
    )
    .action(async (conversation: string | undefined, flags: ChatFlags) => {
      const client = await connect(flags)
      const found = await conversationOrNew(client, { ...flags, conversation })
      await chat(client, found)
    })
}

const PROMPT = '> '

async function chat(client: Client, conversation: Conversation): Promise<void> {
  const isTerminal = process.stdin.isTTY
  const input = createInterface({
    input: process.stdin,
    ...(isTerminal ? { output: process.stdout, prompt: PROMPT } : {}),
  })
  // Listens from now on: what is typed, or comes from a pipe, before we are ready is not lost.
  const lines = input[Symbol.asyncIterator]()
  const asks: PendingAsk[] = []
  if (isTerminal) greet(conversation)
  const view = await openConversationView(client, conversation, {
    onAsk(ask) {
      asks.push(ask)
      if (asks.length === 1) showAsk(ask, isTerminal, conversation.id)
    },
    onIdle: () => {
      if (isTerminal) setImmediate(() => input.prompt(true))
    },
  })
  const leaving = leaveOnSecondInterrupt(client, conversation.id, view, input)
  const talking = talk({ client, conversation, view, input, lines, asks, isTerminal })
  try {
    await Promise.race([talking, leaving])
  } finally {
    input.close()
    view.close()
  }
}

interface Talk {
  client: Client
  conversation: Conversation
  view: ConversationView
  input: Interface
  lines: AsyncIterableIterator<string>
  /** What the agent asks just now: the next line answers the first. */
  asks: PendingAsk[]
  isTerminal: boolean
}

/** Every line is a message, or the answer to what was asked, until there are no more lines. */
async function talk({ client, conversation, view, input, lines, asks, isTerminal }: Talk): Promise<void> {
  let unfinished = ''
  let last: Promise<{ status: string } | null> = Promise.resolve(null)
  for await (const line of lines) {
    if (line.endsWith('\\')) {
      unfinished += `${line.slice(0, -1)}\n`
      continue
    }
    const content = unfinished + line
    unfinished = ''
    const ask = isTerminal ? asks.shift() : undefined
    if (ask) {
      await answer(client, conversation.id, ask, content)
      if (asks[0]) showAsk(asks[0], isTerminal, conversation.id)
    } else if (content.trim() === '') {
      if (isTerminal) input.prompt()
    } else {
      const runId = await sendLine(view, content)
      if (runId) last = view.ended(runId)
      // A script's lines are a conversation: each comes when the one before has been answered.
      if (!isTerminal) await last
    }
  }
  const run = await last
  if (!isTerminal && run?.status !== 'completed') process.exitCode = 1
}

async function sendLine(view: ConversationView, content: string): Promise<string | null> {
  try {
    const { run_id, queue_position } = await view.send(content)
    if (queue_position > 0) console.log(dim(`(waits behind ${queue_position})`))
    return run_id
  } catch (error) {
    if (!(error instanceof RequestError) || error.code !== 'queue_full') throw error
    console.error(`waymark: ${error.message} It was not sent.`)
    return null
  }
}

function leaveOnSecondInterrupt(
  client: Client,
  id: string,
  view: ConversationView,
  input: Interface,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let stopped: string | null = null
    const onInterrupt = () => {
      const active = view.active()
      if (active === null || active === stopped) return resolve()
      stopped = active
      console.log(dim('\n(stopping; Ctrl-C again leaves)'))
      client.stop(id).catch(reject)
    }
    input.on('SIGINT', onInterrupt)
    process.on('SIGINT', onInterrupt)
  })
}

function greet({ id, title, head_event_number }: Conversation): void {
  const name = title === null ? '' : ` ${bold(printable(title))}`
  const past = head_event_number > 1 ? `; \`waymark log ${id}\` shows what was said before` : ''
  console.log(`${dim(id)}${name}${dim(`${past}. Ctrl-C stops the agent, again leaves.`)}\n`)
}

function showAsk(ask: PendingAsk, isTerminal: boolean, id: string): void {
  if (isTerminal) process.stdout.write(questionFor(ask))
  else console.error(`waymark: ${ask.name} waits for an answer; give it with: waymark chat ${id}`)
}
