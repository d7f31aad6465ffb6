import type { Command } from 'commander'
import type { Client, StreamOptions } from '../client/index.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { CommandError, printable, printJsonText } from './output.ts'
import { createTranscriptPrinter } from './print-transcript.ts'
import { sayWhenLost } from './say-when-lost.ts'

interface LogFlags extends Record<string, unknown> {
  json?: boolean
  follow?: boolean
  brief?: boolean
  attachment?: string
}

export function logCommand(): Command {
  return commandWith('log', ['project', 'dataDir', 'url'])
    .description('Show the transcript of a conversation')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('-f, --follow', 'follow new output until Ctrl-C')
    .option('--brief', 'omit tool output and diffs')
    .option('--attachment <name>', 'print the newest attachment with this name')
    .option('--json', 'print the stored frames, one per line')
    .addHelpText(
      'after',
      `
Examples:
  waymark log
  waymark log conv_01m7ge5wdas4rvsp14pjg3nkaf --follow
  waymark log --attachment spec.md > spec.md
  waymark log --json | jq .kind`,
    )
    .action(async (conversation: string | undefined, flags: LogFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, conversation)
      const stop = new AbortController()
      process.once('SIGINT', () => stop.abort())
      const options = { follow: flags.follow ?? false, signal: stop.signal, onState: sayWhenLost() }
      if (flags.attachment !== undefined) return await printAttachment(client, id, flags.attachment)
      await (flags.json
        ? printFrames(client, id, options)
        : printTranscript(client, id, options, flags.brief ?? false))
    })
}

type Following = Pick<StreamOptions, 'follow' | 'signal' | 'onState'>

async function printFrames(client: Client, id: string, options: Following): Promise<void> {
  for await (const items of client.stream(id, options)) {
    for (const item of items) if (item.type === 'frame') printJsonText(item.text)
  }
}

async function printTranscript(
  client: Client,
  id: string,
  options: Following,
  isBrief: boolean,
): Promise<void> {
  const printer = createTranscriptPrinter((text) => process.stdout.write(text), {
    details: !isBrief,
    places: true,
  })
  for await (const transcript of client.transcript(id, options)) printer.show(transcript)
}

async function printAttachment(client: Client, id: string, name: string): Promise<void> {
  let found: string | undefined
  for await (const { entries } of client.transcript(id, { follow: false })) {
    const attachments = entries.flatMap((entry) => (entry.type === 'message' ? entry.attachments : []))
    found = attachments.findLast((one) => one.name === name)?.sha256
  }
  if (found === undefined) throw new CommandError(`no message has an attachment named ${name}`)
  const { content } = await client.attachment(id, found)
  process.stdout.write(process.stdout.isTTY ? printable(content) : content)
}
