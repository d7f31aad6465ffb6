import type { Client } from '../../client/index.ts'
import type { Conversation } from '../../protocol/api/conversations.ts'
import { warnIfUnlisted } from '../connect.ts'
import { statOf } from '../diff.ts'
import { bold, CommandError, count, dim, localTime, printable } from '../output.ts'
import { undoHint } from '../restore.ts'

export interface CommandContext {
  client: Client
  conversation: Conversation
  say(text: string): void
}

/** `exit` ends the chat; a conversation continues there. */
export type Outcome = Conversation | 'exit' | undefined

export interface SlashCommand {
  name: string
  argument?: string
  about: string
  run(context: CommandContext, argument: string): Promise<Outcome> | Outcome
}

const modes = ['ask', 'edit', 'read_only'] as const
const MOST_LISTED = 10

export const slashCommands: readonly SlashCommand[] = [
  {
    name: 'help',
    about: 'list the commands and keys',
    run({ say }) {
      say(helpText())
      return undefined
    },
  },
  {
    name: 'new',
    argument: '[title]',
    about: 'start a new conversation',
    run: ({ client }, title) => client.createConversation(title === '' ? {} : { title }),
  },
  {
    name: 'list',
    about: 'list recent conversations',
    async run({ client, say }) {
      const { items } = await client.listConversations({ limit: MOST_LISTED })
      for (const { id, title, updated_at } of items) {
        say(`${id}  ${dim(localTime(updated_at))}  ${printable(title ?? '')}`)
      }
      return undefined
    },
  },
  {
    name: 'switch',
    argument: '<id>',
    about: 'continue another conversation',
    run: ({ client }, id) => client.conversation(needed(id, '/switch needs the id of a conversation')),
  },
  {
    name: 'fork',
    argument: '[title]',
    about: 'fork this conversation here and continue in the fork; the files stay as they are',
    async run({ client, conversation }, title) {
      const { id } = await client.fork(conversation.id, title === '' ? {} : { title })
      return await client.conversation(id)
    },
  },
  {
    name: 'title',
    argument: '<title>',
    about: 'rename this conversation',
    async run({ client, conversation, say }, title) {
      await client.changeConversation(conversation.id, { title: needed(title, '/title needs a title') })
      say(dim('Renamed.'))
      return undefined
    },
  },
  {
    name: 'model',
    argument: '[name]',
    about: 'use another model from the next message on; "default" for the server\'s',
    async run({ client, conversation, say }, model) {
      if (model !== '' && model !== 'default') await warnIfUnlisted(client, model)
      const changed =
        model === ''
          ? await client.conversation(conversation.id)
          : await client.changeConversation(conversation.id, { model: model === 'default' ? null : model })
      say(dim(`Model: ${printable(changed.model ?? 'the default')}`))
      return undefined
    },
  },
  {
    name: 'agent',
    argument: '[name]',
    about: 'use another agent from the next message on; "waymark" for Waymark\'s own',
    async run({ client, conversation, say }, agent) {
      const isOwn = agent === 'waymark' || agent === 'own'
      if (agent !== '' && !isOwn) {
        const { items } = await client.agents()
        if (!items.some(({ name, is_installed }) => name === agent && is_installed))
          throw new CommandError(`No agent named ${printable(agent)} is installed; see \`waymark agents\``)
      }
      if (agent !== '') await client.changeConversation(conversation.id, { agent: isOwn ? null : agent })
      const { agent: current } = await client.conversation(conversation.id)
      say(dim(`Agent: ${printable(current ?? 'waymark')}`))
      return undefined
    },
  },
  {
    name: 'mode',
    argument: `[${modes.join('|')}]`,
    about: 'what the agent may do without asking',
    async run({ client, conversation, say }, given) {
      const mode = modes.find((one) => one === given)
      if (given !== '' && mode === undefined) throw new CommandError(`/mode is one of ${modes.join(', ')}`)
      const changed =
        mode === undefined
          ? await client.conversation(conversation.id)
          : await client.changeConversation(conversation.id, { mode })
      say(dim(`Mode: ${changed.mode}`))
      return undefined
    },
  },
  {
    name: 'queue',
    about: 'list the messages that wait',
    async run({ client, conversation, say }) {
      const { active, items } = await client.queue(conversation.id)
      if (active === null && items.length === 0) say(dim('Nothing is running.'))
      if (active !== null) say(dim(`running since ${localTime(active.started_at)}`))
      for (const { content } of items) say(`${dim('queued')}  ${shortened(content)}`)
      return undefined
    },
  },
  {
    name: 'stop',
    about: 'stop the active run; the next message in the queue starts',
    async run({ client, conversation, say }) {
      const { run_id } = await client.stop(conversation.id)
      say(dim(run_id === null ? 'Nothing is running.' : 'Stopping.'))
      return undefined
    },
  },
  {
    name: 'changes',
    about: 'list the files that changed since the last approval',
    async run({ client, conversation, say }) {
      const { files } = await client.diff(conversation.id, {})
      if (files.length === 0) say(dim('No changes.'))
      for (const file of files) say(statOf(file))
      return undefined
    },
  },
  {
    name: 'undo',
    about: 'restore the files to the checkpoint before your last message',
    async run({ client, conversation: { id }, say }) {
      const { items } = await client.checkpoints(id, { limit: 100 })
      const before = items.find((one) => one.message_id !== null && one.conversation_id === id)
      if (!before) throw new CommandError('This conversation has no checkpoint before a message.')
      const { restored, deleted, skipped, safety_checkpoint } = await client.restore(id, {
        checkpoint_id: before.checkpoint_id,
      })
      for (const path of restored) say(dim(`  restored ${printable(path)}`))
      for (const path of deleted) say(dim(`  deleted ${printable(path)}`))
      for (const { path, reason } of skipped) say(dim(`  skipped ${printable(path)}: ${printable(reason)}`))
      if (restored.length + deleted.length === 0) say(dim('No file has changed since.'))
      if (safety_checkpoint !== null) say(undoHint(safety_checkpoint, id, {}))
      return undefined
    },
  },
  {
    name: 'approve',
    about: 'approve the changes so far',
    async run({ client, conversation, say }) {
      const { commits_approved } = await client.approve(conversation.id)
      say(dim(`Approved ${count(commits_approved, 'commit')}.`))
      return undefined
    },
  },
  {
    name: 'compact',
    about: 'shorten what the model is sent, with the next message',
    async run({ client, conversation, say }) {
      await client.shortenMemory(conversation.id, { strategy: 'compact' })
      say(dim('With the next message. The transcript does not change.'))
      return undefined
    },
  },
  { name: 'exit', about: 'leave; a run continues on the server', run: () => 'exit' },
]

/** The command of a line that begins with a slash; null if there is none of that name. */
export function slashCommandIn(line: string): { command: SlashCommand; argument: string } | null {
  const [, name = '', argument = ''] = /^\/([a-z]+)(?:\s+([\s\S]*))?$/.exec(line.trim()) ?? []
  const command = slashCommands.find((one) => one.name === name)
  return command ? { command, argument: argument.trim() } : null
}

function helpText(): string {
  const rows = slashCommands.map(({ name, argument, about }) => {
    const usage = `/${name}${argument === undefined ? '' : ` ${argument}`}`
    return `  ${usage.padEnd(28)}${dim(about)}`
  })
  const keys = [
    ['Enter', 'send; a message sent while a run is active is queued'],
    ['Alt-Enter, Ctrl-J, \\ Enter', 'new line'],
    ['Tab', 'complete a command, or a file after @'],
    ['Up, Down', 'earlier messages'],
    ['Ctrl-C', 'clear the line, stop the run, or leave'],
    ['Ctrl-D', 'leave'],
  ].map(([key = '', about = '']) => `  ${key.padEnd(28)}${dim(about)}`)
  return [bold('Commands'), ...rows, '', bold('Keys'), ...keys].join('\n')
}

function needed(argument: string, problem: string): string {
  if (argument === '') throw new CommandError(problem)
  return argument
}

export function shortened(text: string): string {
  const line = printable(text).replaceAll('\n', ' ')
  return line.length > 80 ? `${line.slice(0, 79)}…` : line
}
