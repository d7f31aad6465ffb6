import type { Client } from '../client/index.ts'

/** What an editor can do with the conversation besides sending messages. */
export const slashCommands = [
  { name: 'checkpoints', description: 'List the last checkpoints of the files' },
  {
    name: 'restore',
    description: 'Restore the files to a checkpoint; can be undone',
    input: { hint: 'checkpoint id, as /checkpoints lists them' },
  },
  {
    name: 'fork',
    description: 'Fork this conversation here; open the fork with the editor’s list of sessions',
  },
]

const LISTED = 10
const SHORT_ID = 10

/** Runs a slash command and returns the text to show; null if the text is a message. */
export async function runCommand(client: Client, id: string, text: string): Promise<string | null> {
  const [, name, argument = ''] = /^\/(checkpoints|restore|fork)(?:\s+(\S+))?\s*$/.exec(text.trim()) ?? []
  if (name === 'checkpoints') {
    const { items } = await client.checkpoints(id, { limit: LISTED })
    if (items.length === 0) return 'No checkpoints yet.'
    return items.map((one) => `- \`${one.checkpoint_id.slice(0, SHORT_ID)}\` ${one.label}`).join('\n')
  }
  if (name === 'restore') {
    if (argument === '') return 'Usage: /restore CHECKPOINT. List the checkpoints with /checkpoints.'
    const { restored, deleted, skipped, safety_checkpoint } = await client.restore(id, {
      checkpoint_id: argument,
    })
    const left = skipped.map(({ path, reason }) => `\n- skipped ${path}: ${reason}`).join('')
    const undo =
      safety_checkpoint === null ? '' : ` Undo with /restore ${safety_checkpoint.slice(0, SHORT_ID)}.`
    return `Restored ${restored.length} files, deleted ${deleted.length}.${undo}${left}`
  }
  if (name === 'fork') {
    const fork = await client.fork(id, {})
    return `Forked as ${fork.id}.`
  }
  return null
}
