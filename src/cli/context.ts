import type { Command } from 'commander'
import type { ContextView } from '../protocol/api/context.ts'
import { eventNumber } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, count, dim, printable, printJson, printJsonText } from './output.ts'

interface ContextFlags extends Record<string, unknown> {
  at?: number
  request?: boolean
  json?: boolean
}

export function contextCommand(): Command {
  return commandWith('context', ['project', 'dataDir', 'url'])
    .description('Show what the model was sent: each part, where it comes from, its tokens, and why')
    .argument('[conversation]', 'its id; default: the one that changed last')
    .option('--at <event>', 'the last request up to this event; default: the last one', eventNumber)
    .option('--request', "print the request's body, to the byte")
    .option('--json', 'print it as JSON')
    .addHelpText(
      'after',
      `
Examples:
  waymark context
  waymark context --at 42
  waymark context --request | jq .input`,
    )
    .action(async (conversation: string | undefined, flags: ContextFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, conversation)
      const context = await client.context(id, { at: flags.at })
      if (flags.request && context.request === null)
        throw new CommandError('the token lacks the scope records:read')
      if (flags.request) return printJsonText(context.request ?? '')
      if (flags.json) return printJson(context)
      print(context)
    })
}

const steps: Record<ContextView['chain'], string> = {
  first: 'the first request of the line',
  follow_up: 'goes on from the last response',
  expired: 'told again: the last response is more than 30 days old',
  refused: 'told again: the model no longer knew the conversation',
  changed: 'told again: another model or another server',
  memory: 'told again: the memory was shortened',
  not_kept: 'told from the beginning: nothing is kept there',
}

function print(context: ContextView): void {
  const { response_id, model, chain, status, tokens, event_number } = context
  console.log(`${bold(response_id)}  ${printable(model)}  ${status}  ${dim(`after event ${event_number}`)}`)
  console.log(dim(steps[chain]))
  for (const { origin, tokens: size, sent, why } of withHeld(context)) {
    const line = `${sent ? '+' : ' '} ${String(size).padStart(7)}  ${printable(nameOf(origin)).padEnd(44)}  ${dim(why)}`
    console.log(sent ? line : dim(line))
  }
  console.log(
    bold(
      `${count(tokens.sent, 'token')} sent, ${tokens.not_sent.toLocaleString('en')} not sent again (estimates)`,
    ),
  )
}

type Origin = ContextView['parts'][number]['origin']

/** What earlier requests have sent, as one part. */
function withHeld({ parts, held }: Pick<ContextView, 'parts' | 'held'>): ContextView['parts'] {
  if (held.parts === 0) return parts
  const origin = { type: 'held', count: held.parts }
  return [{ origin, tokens: held.tokens, sent: false, why: 'the provider has it' }, ...parts]
}

const names: Record<string, (origin: Origin) => string> = {
  file: ({ path = '' }) => `file ${path}`,
  chunk: ({ path = '', start_line = 0, end_line = 0 }) => `snippet ${path}:${start_line}-${end_line}`,
  attachment: ({ name = '' }) => `attachment ${name}`,
  message: ({ role }) => `message of the ${role === 'assistant' ? 'agent' : 'person'}`,
  tool_call: ({ name = '' }) => `call of ${name}`,
  tool_output: ({ tool_call_id = '' }) => `outcome of ${tool_call_id}`,
  tools: ({ count: number = 0 }) => count(number, 'tool'),
  held: ({ count: number = 0 }) => `${count(number, 'part')} of earlier requests`,
  history: (origin) => `${count(Number(origin.parts ?? 0), 'part')} of the earlier history`,
}

function nameOf(origin: Origin): string {
  return printable(names[origin.type]?.(origin) ?? origin.type)
}
