import { createReadStream, createWriteStream, existsSync, statSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Command, Option } from 'commander'
import { type SessionAgent, sessionAgents } from '../protocol/api/agent-sessions.ts'
import type { ImportProgress } from '../protocol/api/transfer.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, count, endProgress, printJson, showProgress, size } from './output.ts'

interface TransferFlags extends Record<string, unknown> {
  conversation?: string
  output?: string
  json?: boolean
}

interface ImportFlags extends TransferFlags {
  from?: SessionAgent
  all?: boolean
  dryRun?: boolean
}

export function exportCommand(): Command {
  return commandWith('export', ['project', 'dataDir', 'url'])
    .description('Export a conversation and its whole family to one file')
    .option('-c, --conversation <id>', 'conversation id (default: the most recently changed)')
    .option('-o, --output <file>', 'output file, or - for standard output (default: <id>.waymark.tar)')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
The file is a tar archive with every frame, request, response, agent state, blob and checkpoint, without deleted messages.
It contains all messages and the files of every checkpoint, so protect it like the project itself.

Examples:
  waymark export -o basket.waymark.tar
  waymark export -c conv_01m7ge5wdas4rvsp14pjg3nkaf -o - | gzip > basket.tar.gz`,
    )
    .action(async (flags: TransferFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, flags.conversation)
      if (flags.output === '-') {
        return await pipeline(Readable.fromWeb((await client.export(id)) as never), process.stdout)
      }
      const file = resolve(flags.output ?? `${id}.waymark.tar`)
      if (existsSync(file)) throw new CommandError(`${file} already exists; choose another with -o`)
      const stream = await client.export(id)
      // Write under a temporary name until the file is complete.
      const half = `${file}.part`
      try {
        await pipeline(
          Readable.fromWeb(stream as never),
          counting('exported'),
          createWriteStream(half, { mode: 0o600 }),
        )
        await rename(half, file)
      } catch (error) {
        await rm(half, { force: true })
        throw error
      } finally {
        endProgress()
      }
      const { size: bytes } = statSync(file)
      if (flags.json) return printJson({ file, bytes })
      console.log(bold(`${file}: ${size(bytes)}.`))
    })
}

export function importCommand(): Command {
  return commandWith('import', ['project', 'dataDir', 'url'])
    .description('Import a file that `waymark export` wrote, or the sessions of another agent')
    .argument('[file]', 'the file')
    .addOption(
      new Option('--from <agent>', 'import the sessions that this agent has stored here').choices(
        sessionAgents,
      ),
    )
    .option('--all', 'with --from: also sessions from folders outside the project')
    .option(
      '--dry-run',
      'with --from: list the sessions found, including those already imported; import nothing',
    )
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
A file is verified completely first. Conversations keep their ids and digests. Existing conversations are left unchanged, and one
with a different history is rejected. The project's files are not changed; restore a checkpoint to get them.

With --from, each session becomes a conversation, with messages, thoughts, calls, outputs, edits and times. Importing again adds what is
new. Entries that have no place in a transcript are kept in the ledger and counted. The sessions themselves are not changed.

Examples:
  waymark import basket.waymark.tar
  waymark import --from claude
  waymark import --from codex --all --dry-run`,
    )
    .action(async (path: string | undefined, flags: ImportFlags) => {
      if ((path === undefined) === (flags.from === undefined)) {
        throw new CommandError('name a file, or an agent with --from')
      }
      if ((flags.all || flags.dryRun) && flags.from === undefined)
        throw new CommandError('--all and --dry-run need --from')
      if (flags.from === undefined) return await importFile(path ?? '', flags)
      // Loaded when used: it reads the databases and files of other programs.
      const { importSessions } = await import('./import-sessions.ts')
      await importSessions(flags.from, flags)
    })
}

async function importFile(path: string, flags: ImportFlags): Promise<void> {
  const file = resolve(path)
  if (!existsSync(file)) throw new CommandError(`file not found: ${file}`)
  const client = await connect(flags)
  const body = Readable.toWeb(createReadStream(file).pipe(counting('sent')))
  const report = await client.import(body as ReadableStream, { onProgress: show }).finally(endProgress)
  if (flags.json) return printJson(report)
  for (const id of report.imported) console.log(`imported  ${id}`)
  for (const id of report.present) console.log(`present   ${id}`)
  const what = `${count(report.events, 'event')} and ${count(report.checkpoints, 'checkpoint')}`
  console.log(bold(`${count(report.imported.length, 'conversation')} imported, ${what}.`))
}

const steps: Record<ImportProgress['step'], string> = {
  checking: 'checking the file',
  events: 'storing events',
  records: 'storing requests and agent states',
  checkpoints: 'storing checkpoints',
}

function show({ step, events, of }: ImportProgress): void {
  const counted = of > 0 ? ` (${events.toLocaleString('en')} of ${of.toLocaleString('en')} events)` : ''
  showProgress(`${steps[step]}${counted} …`)
}

/** Passes bytes through and shows their count as progress. */
function counting(verb: string): Transform {
  let bytes = 0
  let shown = 0
  return new Transform({
    transform(piece: Buffer, _encoding, done) {
      bytes += piece.length
      if (Date.now() - shown > 200) {
        showProgress(`${verb}: ${size(bytes)} …`)
        shown = Date.now()
      }
      done(null, piece)
    },
  })
}
