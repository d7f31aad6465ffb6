import { createInterface, type Interface } from 'node:readline'
import type { Command } from 'commander'
import { type Client, ConnectionError, RequestError } from '../client/index.ts'
import type { Conversation } from '../protocol/api/conversations.ts'
import type { QuestionView } from '../protocol/api/runs.ts'
import { answer, answersText, denyUnattended, prompt, questionText, readAnswer, readQuestion } from './ask.ts'
import { AGENT_HELP, connect, conversationOrNew, MODEL_HELP } from './connect.ts'
import { type ConversationView, openConversationView, type PendingAsk } from './conversation-session.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, dim, printable } from './output.ts'

interface ChatFlags extends Record<string, unknown> {
  new?: boolean
  title?: string
  model?: string
  agent?: string
}

export function chatCommand(): Command {
  return commandWith('chat', ['project', 'dataDir', 'url'])
    .description('Chat with the agent; Ctrl-C stops the run, Ctrl-C again exits')
    .argument('[conversation]', 'conversation id (default: the most recently changed, or a new one)')
    .option('-n, --new', 'start a new conversation')
    .option('--title <title>', 'the title of a new conversation')
    .option('-m, --model <name>', MODEL_HELP)
    .option('-a, --agent <name>', AGENT_HELP)
    .addHelpText(
      'after',
      `
Messages that you type while a run is active are queued. A line that ends in \\ continues on the next line.
Without a terminal, each input line is a message, sent after the previous one is answered; calls that need approval
are denied.

Examples:
  waymark chat
  waymark chat --new --title "faster start"
  printf 'list the files\\n' | waymark chat`,
    )
    .action(async (conversation: string | undefined, flags: ChatFlags) => {
      const client = await connect(flags)
      const found = await conversationOrNew(client, { ...flags, conversation })
      await (process.stdin.isTTY ? chatOnTerminal(client, found) : chatWithInput(client, found))
    })
}

/** Sends each input line after the previous one is answered. */
async function chatWithInput(client: Client, conversation: Conversation): Promise<void> {
  const input = createInterface({ input: process.stdin })
  // Start listening now, so that piped input that arrives before the view is ready is not lost.
  const lines = input[Symbol.asyncIterator]()
  const view = await openConversationView(client, conversation, {
    onAsk: (ask) => void denyUnattended(client, conversation.id, ask),
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
      const { run_id } = await view.send(content)
      status = (await view.ended(run_id))?.status ?? 'removed'
    }
  } finally {
    input.close()
    view.close()
  }
  if (status !== 'completed') process.exitCode = 1
}

const PROMPT = '> '

async function chatOnTerminal(client: Client, conversation: Conversation): Promise<void> {
  greet(conversation)
  const input = createInterface({ input: process.stdin, output: process.stdout, prompt: PROMPT })
  const asks = createAsks(input)
  const view = await openConversationView(client, conversation, {
    onAsk: (ask) => void showWhole(ask).catch(sayNotDone),
    onAskOver: asks.remove,
    onReconnected: asks.showAgain,
    onIdle: () => setImmediate(() => input.prompt(true)),
  })
  let unfinished = ''
  const left = leaveOnSecondInterrupt(client, conversation.id, view, input)
  const closed = new Promise<void>((resolve) => input.once('close', resolve))

  /** Shows a question only after its full call has been loaded. */
  async function showWhole(ask: PendingAsk): Promise<void> {
    const question = await readQuestion(client, conversation.id, ask)
    if (question) asks.add({ ...ask, question })
  }

  async function take(line: string, ask: WholeAsk | undefined): Promise<void> {
    if (ask) return await asks.answered(client, conversation.id, ask, line)
    if (line.endsWith('\\')) {
      unfinished += `${line.slice(0, -1)}\n`
      return
    }
    const content = unfinished + line
    unfinished = ''
    if (content.trim() === '') return input.prompt()
    await sendLine(view, content, input)
  }

  // A line answers the question that was shown when it was typed.
  let taking: Promise<void> = Promise.resolve()
  input.on('line', (line) => {
    const ask = asks.current()
    taking = taking.then(() => take(line, ask)).catch((error: unknown) => sayNotDone(error))
  })
  try {
    await Promise.race([closed, left])
    await taking
  } finally {
    input.close()
    view.close()
  }
}

/** Sends a line; if that fails, puts the text back into the input. */
async function sendLine(view: ConversationView, content: string, input: Interface): Promise<void> {
  try {
    const { queue_position } = await view.send(content)
    if (queue_position > 0) console.log(dim(`(queued after ${queue_position})`))
  } catch (error) {
    if (!isExpected(error)) throw error
    console.error(`waymark: ${(error as Error).message} The message was not sent.`)
    if (!content.includes('\n')) input.write(content)
  }
}

function sayNotDone(error: unknown): void {
  if (!isExpected(error)) throw error
  console.error(`waymark: ${(error as Error).message}`)
}

function isExpected(error: unknown): boolean {
  return error instanceof RequestError || error instanceof ConnectionError || error instanceof CommandError
}

/** A pending approval with its full call. */
type WholeAsk = PendingAsk & { question: QuestionView }

/** Pending approvals, shown one at a time. A partly typed line is set aside and restored after the answer. */
function createAsks(input: Interface) {
  const asks: WholeAsk[] = []
  let draft = ''

  function show(): void {
    const [ask] = asks
    if (!ask) return
    input.setPrompt(prompt(ask.question))
    process.stdout.write(questionText(ask.question))
    input.prompt()
  }

  function setAside(): void {
    draft = input.line
    input.write(null, { ctrl: true, name: 'e' })
    input.write(null, { ctrl: true, name: 'u' })
  }

  function next(): void {
    if (asks.length > 0) return show()
    input.setPrompt(PROMPT)
    if (draft) input.write(draft)
    draft = ''
  }

  return {
    current: () => asks[0],
    showAgain: show,
    add(ask: WholeAsk): void {
      asks.push(ask)
      if (asks.length > 1) return
      setAside()
      show()
    },
    /** Called when another client has answered or the run has ended. */
    remove(toolCallId: string): void {
      const index = asks.findIndex((ask) => ask.toolCallId === toolCallId)
      if (index < 0) return
      asks.splice(index, 1)
      if (index > 0) return
      console.log(dim('\n(this approval is no longer pending)'))
      next()
    },
    async answered(client: Client, conversationId: string, ask: WholeAsk, line: string): Promise<void> {
      const given = readAnswer(line, ask.question)
      if (given === null) {
        console.log(answersText(ask.question))
        return input.prompt()
      }
      const index = asks.indexOf(ask)
      if (index >= 0) asks.splice(index, 1)
      next()
      await answer(client, conversationId, ask, given, ask.question)
    },
  }
}

function leaveOnSecondInterrupt(
  client: Client,
  id: string,
  view: ConversationView,
  input: Interface,
): Promise<void> {
  return new Promise((resolve) => {
    let stopped: string | null = null
    const onInterrupt = () => {
      const active = view.active()
      if (active === null || active === stopped) return resolve()
      stopped = active
      console.log(dim('\n(stopping; press Ctrl-C again to exit)'))
      client.stop(id).catch(sayNotDone)
    }
    input.on('SIGINT', onInterrupt)
    process.on('SIGINT', onInterrupt)
  })
}

function greet({ id, title, head_event_number }: Conversation): void {
  const name = title === null ? '' : ` ${bold(printable(title))}`
  const past = head_event_number > 1 ? `; \`waymark log ${id}\` shows earlier messages` : ''
  console.log(`${dim(id)}${name}${dim(`${past}. Ctrl-C stops the run; Ctrl-C again exits.`)}\n`)
}
