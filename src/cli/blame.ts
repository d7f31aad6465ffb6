import type { Command } from 'commander'
import type { BlameView } from '../protocol/api/work.ts'
import { linesOf } from '../protocol/lines.ts'
import { projectPath } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { dim, localTime, printable, printJson } from './output.ts'

const MESSAGE = 30

export function blameCommand(): Command {
  return commandWith('blame', ['project', 'dataDir', 'url'])
    .description('Show who wrote each line of a file: a message and its call, or something outside Waymark')
    .argument('<file>', 'path in the project')
    .option(
      '-c, --conversation <id>',
      'a conversation that works on the file (default: the most recently changed)',
    )
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
The authors come from checkpoints and edits of all conversations in the project, also under the file's
earlier names. "outside" is a person or another program; "unknown" is a change that a call may or may not have
made.

Examples:
  waymark blame src/basket.ts
  waymark blame src/basket.ts --json | jq '.authors[].message'`,
    )
    .action(
      async (file: string, flags: Record<string, unknown> & { conversation?: string; json?: boolean }) => {
        const client = await connect(flags)
        const id = await conversationId(client, flags.conversation)
        const view = await client.blame(id, projectPath(flags, file))
        if (flags.json) return printJson(view)
        print(view)
      },
    )
}

function print({ text, lines, authors }: BlameView): void {
  const names = authors.map(nameOf)
  const width = Math.max(...names.map((name) => name.length), 0)
  const content = linesOf(text)
  const digits = String(content.length).length
  for (const { from, to, author } of lines) {
    for (let line = from; line <= to; line++) {
      // The author is named where it changes.
      const name = (line === from ? (names[author] ?? '') : '').padEnd(width)
      console.log(
        `${dim(name)}  ${dim(String(line).padStart(digits))}  ${printable(content[line - 1] ?? '')}`,
      )
    }
  }
}

function nameOf({ kind, agent, tool, message, at, event_number }: BlameView['authors'][number]): string {
  if (kind === 'outside' || kind === 'unknown') return kind
  const who = agent ?? (tool === null ? kind : 'agent')
  const said = message === null ? '' : ` “${shortened(message)}”`
  const when = at === null ? '' : ` ${localTime(at)}`
  const place = event_number === null ? '' : ` event ${event_number}`
  return printable(`${who}${tool === null ? '' : ` ${tool.split('__').at(-1)}`}${said}${when}${place}`)
}

function shortened(message: string): string {
  const line = message.replaceAll(/\s+/g, ' ').trim()
  return line.length > MESSAGE ? `${line.slice(0, MESSAGE - 1)}…` : line
}
