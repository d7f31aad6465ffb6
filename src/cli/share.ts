import { existsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { ConnectionError, createClient } from '../client/index.ts'
import { type PreparedShare, prepareShare, sharedHtml } from '../sharing/shared-file.ts'
import { conversationId, serverOf } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, count, dim, endProgress, printable, printJson, showProgress } from './output.ts'

interface ShareFlags extends Record<string, unknown> {
  output?: string
  redact?: string[]
  preview?: boolean
  json?: boolean
}

export function shareCommand(): Command {
  return commandWith('share', ['project', 'dataDir', 'url'])
    .description('Write a conversation to a read-only HTML file that needs no server')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option(
      '-o, --output <file>',
      'output file (default: <id>.html in the temporary folder, which no checkpoint includes)',
    )
    .option('--redact <text...>', 'also remove these texts, such as names')
    .option('--preview', 'only list what would be redacted')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
The file shows the transcript at any event, with tool calls, diffs and attachments. It loads nothing from
the network and runs nothing from the conversation. Secrets of known forms are redacted; read the list, and
the file, before you pass it on.

Examples:
  waymark share --preview
  waymark share -o basket.html --redact ada@example.org "Ada Lovelace"`,
    )
    .action(async (conversation: string | undefined, flags: ShareFlags) => {
      const server = await serverOf(flags)
      const client = createClient(server)
      const id = await conversationId(client, conversation)
      const file = flags.output === undefined ? ownFile(id) : resolve(flags.output)
      if (!flags.preview && flags.output !== undefined && existsSync(file))
        throw new CommandError(`${file} already exists; choose another with -o`)
      const prepared = await prepareShare(client, id, {
        now: new Date().toISOString(),
        also: flags.redact ?? [],
        onProgress: (events, of) =>
          showProgress(`reading: ${events.toLocaleString('en')} of ${of.toLocaleString('en')} events …`),
      }).finally(endProgress)
      if (!flags.preview) {
        const html = sharedHtml(await readTemplate(server.url), prepared.shared)
        writeFileSync(file, html, { flag: flags.output === undefined ? 'w' : 'wx', mode: 0o600 })
      }
      print(prepared, flags.preview ? null : file, flags.json ?? false)
    })
}

/** Outside the project: its checkpoints would include the file. */
function ownFile(id: string): string {
  return join(tmpdir(), `${id}.html`)
}

async function readTemplate(url: string): Promise<string> {
  const response = await fetch(`${url}/shared.html`).catch((cause: unknown) => {
    throw new ConnectionError(url, cause)
  })
  if (!response.ok) throw new CommandError('the server has no page; run `npm run build` there')
  return await response.text()
}

function print({ redactions, shared }: PreparedShare, file: string | null, asJson: boolean): void {
  if (asJson) return printJson({ file, redactions })
  for (const { what, shown, count: places } of redactions)
    console.log(`redacted  ${printable(what)}  ${dim(printable(shown))}  ${count(places, 'place')}`)
  if (redactions.length === 0) console.log(dim('No secrets of a known form were found.'))
  if (file !== null) console.log(bold(`${file}: ${count(shared.frames.length, 'event')}.`))
}
