import { type Client, ConnectionError, RequestError } from '../../client/index.ts'
import type { Conversation } from '../../protocol/api/conversations.ts'
import { isNamed, mentionAt, withMention } from '../../protocol/mention.ts'
import { answer, type GivenAnswer, questionText, readQuestion } from '../ask.ts'
import { type ConversationView, openConversationView, type PendingAsk } from '../conversation-session.ts'
import { bold, CommandError, dim, printable, redirectMessages } from '../output.ts'
import { LineEditor } from './line-editor.ts'
import { AskFocus, type AskKey, askKeysText, SETTLE_MS, type WholeAsk } from './pending-asks.ts'
import { cutToWidth, inputRows, wrapLine } from './rows.ts'
import { type Outcome, shortened, slashCommandIn, slashCommands } from './slash-commands.ts'
import { openTerminal, type Terminal } from './terminal.ts'

const PROMPT = '> '
const MOST_CHOICES = 5
const MOST_MENTIONS = 20
const TICK_MS = 1000

/** Chats on the terminal until the person leaves. */
export async function chatOnTerminal(client: Client, conversation: Conversation): Promise<void> {
  const terminal = openTerminal()
  const editor = new LineEditor()
  const end = redirectMessages((text) => terminal.screen.write(text))
  try {
    let next: Conversation | null = conversation
    while (next) next = await talk(client, next, terminal, editor)
  } finally {
    terminal.close()
    end()
  }
}

/** Chats in one conversation; returns the one to continue with, or null to leave. */
async function talk(
  client: Client,
  conversation: Conversation,
  { screen, onKey, onRedraw }: Terminal,
  editor: LineEditor,
): Promise<Conversation | null> {
  const { id } = conversation
  const over = Promise.withResolvers<Conversation | null>()
  const asks: WholeAsk[] = []
  const focus = new AskFocus()
  let isReason = false
  /** What was typed before a reason was asked for. */
  let draft = ''
  let choices: Choices = none
  /** A key that answers unless another one follows. */
  let waiting: { typed: string; timer: NodeJS.Timeout } | null = null
  let stopped: string | null = null
  let activeSince: { runId: string; at: number } | null = null
  let view: ConversationView | null = null
  const connected = Promise.withResolvers<ConversationView>()
  /** Lines are handled one after the other. */
  let handling: Promise<void> = Promise.resolve()

  const say = (text: string) => {
    screen.endRow()
    screen.write(`${text}\n`)
  }
  greet(conversation, say)
  onKey(press)
  onRedraw(draw)
  draw()
  const tick = setInterval(() => {
    if (asks.length > 0 && !isReason) focus.offer(editor.text)
    draw()
  }, TICK_MS)
  try {
    view = await openConversationView(client, conversation, {
      write: (text) => screen.write(text),
      isEchoed: true,
      onAsk: (ask) => void showWhole(ask).catch(sayNotDone),
      onAskOver: remove,
    })
    connected.resolve(view)
    draw()
    return await over.promise
  } finally {
    clearInterval(tick)
    cancelWaiting()
    onKey(() => {})
    view?.close()
  }

  function draw(): void {
    const { width, height } = screen
    const [ask] = asks
    const most = Math.max(1, Math.min(10, height - 4))
    if (ask && focus.isHeld && !isReason) {
      // Output may have moved the question out of sight, or imitate one.
      const { tool_name, arguments: given } = ask.question
      const call = cutToWidth(`Allow ${printable(tool_name)} ${shortened(given)}?`, width)
      const { rows, rest } = wrapLine(focus.prompt(ask.question), width)
      const shown = [call, ...rows, rest].map((row) => bold(row))
      return screen.show({ rows: shown, row: shown.length - 1, before: shown.at(-1) ?? '', below: [] })
    }
    const typed = {
      prompt: isReason ? 'Reason: ' : PROMPT,
      text: printable(editor.text),
      caret: editor.caret,
    }
    screen.show({ ...inputRows(typed, width, most), below: below(width).map((line) => dim(line)) })
  }

  function below(width: number): string[] {
    if (choices.items.length > 0) return choices.items.map((item) => cutToWidth(`  ${item.label}`, width))
    if (isReason) return []
    if (asks.length > 0) return [cutToWidth('An approval is waiting: press Esc to answer it.', width)]
    const active = view?.active() ?? null
    if (active === null) return []
    if (activeSince?.runId !== active) activeSince = { runId: active, at: Date.now() }
    const seconds = Math.floor((Date.now() - activeSince.at) / 1000)
    return [cutToWidth(`Working${seconds > 1 ? `, ${seconds} s` : ''}. Ctrl-C stops it.`, width)]
  }

  function press(typed: string | undefined, key: Parameters<LineEditor['press']>[1]): void {
    const [ask] = asks
    if (ask && focus.isHeld && !isReason) pressAnswer(ask, typed, key)
    else pressText(typed, key)
    draw()
  }

  function pressAnswer(
    ask: WholeAsk,
    typed: string | undefined,
    key: Parameters<LineEditor['press']>[1],
  ): void {
    if (key.name === 'paste-start') {
      typeMessage('')
      return pressText(typed, key)
    }
    const before = waiting?.typed ?? ''
    const pressed = focus.press(typed, key, ask.question)
    if (waiting) {
      // A second key right after the first: the person types a message.
      cancelWaiting()
      if (pressed.do !== 'interrupt') return typeMessage(before + (typed ?? ''))
    }
    if (pressed.do === 'message') focus.leave()
    else if (pressed.do === 'interrupt') interrupt()
    else if (pressed.do === 'text') typeMessage(pressed.typed)
    else if (pressed.do !== 'none') {
      const timer = setTimeout(() => {
        waiting = null
        if (asks[0] === ask && focus.isHeld) answerWith(ask, pressed)
        draw()
      }, SETTLE_MS)
      waiting = { typed: typed ?? '', timer }
    }
  }

  function answerWith(ask: WholeAsk, pressed: AskKey): void {
    if (pressed.do === 'answer') give(ask, pressed.answer)
    else if (pressed.do === 'help') say(askKeysText(ask.question))
    else if (pressed.do === 'scope') focus.changeScope()
    else if (pressed.do === 'reason') {
      isReason = true
      draft = editor.text
      editor.set('')
    }
  }

  /** The question gives up the keys; what was typed goes to the message. */
  function typeMessage(typed: string): void {
    focus.leave()
    for (const char of typed) pressText(char, { name: char === '\r' ? 'return' : char })
  }

  function cancelWaiting(): void {
    if (waiting) clearTimeout(waiting.timer)
    waiting = null
  }

  function pressText(typed: string | undefined, key: Parameters<LineEditor['press']>[1]): void {
    focus.noteTyping()
    const effect = editor.press(typed, key)
    if (effect === 'edited') void choose()
    else if (effect === 'complete') complete()
    else if (effect === 'interrupt') interrupt()
    else if (effect === 'end') leave()
    else if (effect === 'escape') escape()
    else if (effect === 'submit') submit()
  }

  function escape(): void {
    if (isReason) endReason()
    else if (choices.items.length > 0) choices = none
    else if (asks.length > 0) focus.take()
  }

  function endReason(): void {
    isReason = false
    editor.set(draft)
    draft = ''
  }

  function submit(): void {
    choices = none
    const [ask] = asks
    if (isReason && ask) {
      const reason = editor.text.trim()
      endReason()
      return give(ask, { approved: false, ...(reason === '' ? {} : { reason }) })
    }
    const text = editor.take()
    if (text.trim() === '') return
    handling = handling.then(() => take(text)).catch(sayNotDone)
  }

  async function take(text: string): Promise<void> {
    const slash = slashCommandIn(text)
    if (slash) {
      const outcome: Outcome = await slash.command.run({ client, conversation, say }, slash.argument)
      if (outcome === 'exit') leave()
      else if (outcome) over.resolve(outcome)
      return
    }
    try {
      await send(text)
    } catch (error) {
      // Nothing that was typed is lost.
      if (editor.text === '') editor.set(text)
      throw error
    }
  }

  async function send(content: string): Promise<void> {
    // What was typed before the connection is sent after it.
    const { send: sendMessage } = await connected.promise
    // A hosted agent has commands of its own.
    if (/^\/[a-z-]+\b/.test(content) && (await client.conversation(id)).agent === null) {
      throw new CommandError(
        'There is no such command; /help lists them. Begin with a space to send it as a message.',
      )
    }
    const files = await filesNamedIn(content)
    const along = files.length === 0 ? {} : { active_files: files }
    const { queue_position } = await sendMessage(content, undefined, along)
    if (queue_position > 0) say(dim(`(queued after ${queue_position}: ${shortened(content)})`))
  }

  async function filesNamedIn(content: string): Promise<string[]> {
    const named = [...content.matchAll(/(?:^|[\s(])@([^\s@]+)/g)].map(([, path = '']) => path)
    const found = new Set<string>()
    for (const path of named.slice(0, MOST_MENTIONS)) {
      const { items } = await client.files(id, { q: path.replace(/[.,;:!?)]+$/, ''), limit: 20 })
      for (const item of items) if (isNamed(content, item)) found.add(item)
    }
    return [...found]
  }

  /** Finds completions for the command or the file that is being typed. */
  async function choose(): Promise<void> {
    const { text, caret } = editor
    choices = none
    if (isReason) return
    if (/^\/[a-z]*$/.test(text)) {
      const fitting = slashCommands.filter(({ name }) => `/${name}`.startsWith(text))
      choices = {
        items: fitting.slice(0, MOST_CHOICES).map(({ name, about }) => ({
          label: `/${name}  ${about}`,
          text: `/${name} `,
          caret: name.length + 2,
        })),
      }
      return
    }
    const mention = mentionAt(text, caret)
    if (!mention) return
    const { items } = await client
      .files(id, { q: mention.typed, limit: MOST_CHOICES })
      .catch(() => ({ items: [] }))
    if (editor.text !== text || editor.caret !== caret) return
    choices = {
      items: items.map((path) => {
        const { content, caret: next } = withMention(text, mention, path)
        return { label: `@${shortened(path)}`, text: content, caret: next }
      }),
    }
    draw()
  }

  function complete(): void {
    const [first] = choices.items
    if (!first) return
    editor.set(first.text, first.caret)
    choices = none
  }

  function interrupt(): void {
    if (isReason) return endReason()
    if (editor.text !== '' && !focus.isHeld) {
      editor.set('')
      choices = none
      return
    }
    const active = view?.active() ?? null
    if (active === null || active === stopped) return leave()
    stopped = active
    say(dim('(stopping; press Ctrl-C again to leave)'))
    client.stop(id).catch(sayNotDone)
  }

  function leave(): void {
    if ((view?.active() ?? null) !== null) {
      screen.endRow()
      say(dim(`The run continues on the server. To return: waymark chat ${id}`))
    }
    over.resolve(null)
  }

  /** Shows a question only after its full call has been loaded. */
  async function showWhole(ask: PendingAsk): Promise<void> {
    const question = await readQuestion(client, id, ask)
    if (!question) return
    asks.push({ ...ask, question })
    if (asks.length === 1) showAsk()
  }

  function showAsk(): void {
    const [ask] = asks
    focus.leave()
    cancelWaiting()
    if (ask) {
      screen.endRow()
      screen.write(questionText(ask.question))
      focus.offer(editor.text)
    }
    draw()
  }

  function give(ask: WholeAsk, given: GivenAnswer): void {
    asks.shift()
    showAsk()
    answer(client, id, ask, given, ask.question).catch(sayNotDone)
  }

  /** Called when another client has answered or the run has ended. */
  function remove(toolCallId: string): void {
    const index = asks.findIndex((ask) => ask.toolCallId === toolCallId)
    if (index < 0) return
    asks.splice(index, 1)
    if (index > 0) return
    if (isReason) endReason()
    say(dim('(this approval is no longer pending)'))
    showAsk()
  }

  function sayNotDone(error: unknown): void {
    if (!isExpected(error)) return over.reject(error)
    screen.endRow()
    say(`waymark: ${printable((error as Error).message)}`)
    draw()
  }
}

interface Choices {
  items: readonly { label: string; text: string; caret: number }[]
}

const none: Choices = { items: [] }

function isExpected(error: unknown): boolean {
  return error instanceof RequestError || error instanceof ConnectionError || error instanceof CommandError
}

function greet({ id, title, head_event_number }: Conversation, say: (text: string) => void): void {
  const name = title === null ? '' : ` ${bold(printable(title))}`
  const past = head_event_number > 1 ? `; \`waymark log ${id}\` shows earlier messages` : ''
  say(`${dim(id)}${name}${dim(`${past}. /help lists commands and keys.`)}\n`)
}
