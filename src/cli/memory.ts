import { type Command, Option } from 'commander'
import type { WantMemory } from '../protocol/api/context.ts'
import { wholeNumber } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, dim, localTime, printable, printJson } from './output.ts'

interface MemoryFlags extends Record<string, unknown> {
  strategy?: 'none' | 'trim' | 'summarize' | 'compact'
  maxTokens?: number
  now?: WantMemory['strategy']
  undo?: boolean
  json?: boolean
}

export function memoryCommand(): Command {
  return commandWith('memory', ['project', 'dataDir', 'url'])
    .description("Show or change the strategy that keeps the model's context within its limit")
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .addOption(
      new Option('--strategy <which>', 'what to do when the limit is exceeded').choices([
        'none',
        'trim',
        'summarize',
        'compact',
      ]),
    )
    .option('--max-tokens <number>', 'the limit; requires --strategy', wholeNumber)
    .addOption(
      new Option('--now <how>', 'apply it with the next message').choices(['trim', 'summarize', 'compact']),
    )
    .option('--undo', 'send the full history again')
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
The transcript and the ledger never change.

Examples:
  waymark memory
  waymark memory --strategy summarize --max-tokens 60000
  waymark memory --now compact
  waymark memory --undo`,
    )
    .action(async (conversation: string | undefined, flags: MemoryFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, conversation)
      if (flags.maxTokens !== undefined && flags.strategy === undefined) {
        throw new CommandError('--max-tokens needs --strategy')
      }
      if (flags.strategy !== undefined) {
        const max_tokens = flags.maxTokens === undefined ? {} : { max_tokens: flags.maxTokens }
        await client.changeConversation(id, { memory: { strategy: flags.strategy, ...max_tokens } })
      }
      if (flags.now !== undefined) await client.shortenMemory(id, { strategy: flags.now })
      const memory = flags.undo ? await client.undoMemory(id) : await client.memory(id)
      if (flags.json) return printJson(memory)
      const limit = memory.max_tokens === null ? '' : ` at ${memory.max_tokens.toLocaleString('en')} tokens`
      console.log(bold(`${memory.strategy}${limit}`))
      if (memory.wanted !== null) console.log(`With the next message: ${memory.wanted}`)
      for (const { event_number, checkpoint, summary, created_at } of memory.items) {
        const { strategy, tokens_before, tokens_after } = checkpoint
        console.log(
          `${dim(localTime(created_at))}  event ${event_number}  ${strategy}, ${Number(tokens_before)} → ${Number(tokens_after)} tokens`,
        )
        if (summary !== null) console.log(`  ${printable(summary)}`)
      }
    })
}
