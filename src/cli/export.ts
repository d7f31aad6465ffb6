import { createReadStream, createWriteStream, existsSync, statSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, count, endProgress, printJson, showProgress } from './output.ts'

interface TransferFlags extends Record<string, unknown> {
  conversation?: string
  output?: string
  json?: boolean
}

export function exportCommand(): Command {
  return commandWith('export', ['project', 'dataDir', 'url'])
    .description('Write a conversation, with all that it was forked from and into, to one file')
    .option('-c, --conversation <id>', 'the conversation; default: the one that changed last')
    .option(
      '-o, --output <file>',
      'the file; default: <id>.waymark.tar in this folder; - for standard output',
    )
    .addHelpText(
      'after',
      `
The file is a tar archive with every frame, request, answer, agent state, blob and checkpoint. Deleted messages are not in it.
It holds what was said and the files of every checkpoint: keep it as you keep those.

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
      if (existsSync(file)) throw new CommandError(`${file} is there already; name another with -o`)
      const stream = await client.export(id)
      // Under another name until it is whole.
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
      console.log(bold(`${file}: ${size(statSync(file).size)}.`))
    })
}

export function importCommand(): Command {
  return commandWith('import', ['project', 'dataDir', 'url'])
    .description('Take in a file that `waymark export` wrote')
    .argument('<file>', 'the file')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
Everything in the file is checked first. Conversations keep their ids and digests; those that are here already are left as they
are, and one that is here with another history is refused. Files of the project are not touched: restore a checkpoint for that.

Examples:
  waymark import basket.waymark.tar
  waymark log -c conv_01m7ge5wdas4rvsp14pjg3nkaf`,
    )
    .action(async (path: string, flags: TransferFlags) => {
      const file = resolve(path)
      if (!existsSync(file)) throw new CommandError(`there is no file ${file}`)
      const client = await connect(flags)
      const body = Readable.toWeb(createReadStream(file).pipe(counting('sent')))
      const report = await client.import(body as ReadableStream).finally(endProgress)
      if (flags.json) return printJson(report)
      for (const id of report.imported) console.log(`imported  ${id}`)
      for (const id of report.present) console.log(`present   ${id}`)
      const what = `${count(report.events, 'event')} and ${count(report.checkpoints, 'checkpoint')}`
      console.log(bold(`${count(report.imported.length, 'conversation')} imported, ${what}.`))
    })
}

/** Passes bytes on and shows how many there were. */
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

function size(bytes: number): string {
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} kB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`
}
