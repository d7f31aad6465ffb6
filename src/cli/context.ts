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
    .description('Show what was sent to the model: each part with its origin, tokens and reason')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('--at <event>', 'the last request up to this event (default: the last request)', eventNumber)
    .option('--request', 'print the exact request body')
    .option('--json', 'print as JSON')
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
      const { requests, input_tokens, output_tokens, cached_tokens, cost } = await client.usage(id)
      const shown = (tokens: number) => tokens.toLocaleString('en')
      console.log(
        `Counted by the provider, in ${count(requests, 'request')}: ${shown(input_tokens)} tokens in ` +
          `(${shown(cached_tokens)} cached), ${shown(output_tokens)} out${cost === null ? '' : `, cost ${cost}`}`,
      )
    })
}

const steps: Record<ContextView['chain'], string> = {
  first: 'first request of the line',
  follow_up: 'continues from the last response',
  expired: 'new chain: the last response is more than 30 days old',
  refused: 'new chain: the provider no longer had the last response',
  changed: 'new chain: the model or the server changed',
  memory: 'new chain: the context was compacted',
  not_kept: 'no chain: the provider does not store responses',
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

/** Shows everything held from earlier requests as one part. */
function withHeld({ parts, held }: Pick<ContextView, 'parts' | 'held'>): ContextView['parts'] {
  if (held.parts === 0) return parts
  const origin = { type: 'held', count: held.parts }
  return [{ origin, tokens: held.tokens, sent: false, why: 'held by the provider' }, ...parts]
}

const names: Record<string, (origin: Origin) => string> = {
  file: ({ path = '' }) => `file ${path}`,
  chunk: ({ path = '', start_line = 0, end_line = 0 }) => `snippet ${path}:${start_line}-${end_line}`,
  attachment: ({ name = '' }) => `attachment ${name}`,
  message: ({ role }) => `${role === 'assistant' ? 'agent' : 'user'} message`,
  tool_call: ({ name = '' }) => `call to ${name}`,
  tool_output: ({ tool_call_id = '' }) => `outcome of ${tool_call_id}`,
  tools: ({ count: number = 0 }) => count(number, 'tool'),
  held: ({ count: number = 0 }) => `${count(number, 'part')} from earlier requests`,
  history: (origin) => `${count(Number(origin.parts ?? 0), 'part')} of earlier history`,
}

function nameOf(origin: Origin): string {
  return printable(names[origin.type]?.(origin) ?? origin.type)
}
