import type { Command } from 'commander'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, count, dim, printable } from './output.ts'

interface CheckpointsFlags extends Record<string, unknown> {
  limit: string
  leftOut?: string
  json?: boolean
}

export const SHORT_ID = 10

const PAGE = 200

export function checkpointsCommand(): Command {
  return commandWith('checkpoints', ['project', 'dataDir', 'url'])
    .description('List the snapshots of the files, the last first')
    .argument('[conversation]', 'its id; default: the one that changed last')
    .option('--limit <number>', 'how many', '20')
    .option('--left-out <checkpoint>', 'show what this checkpoint left out, and why')
    .option('--json', 'print it as JSON')
    .addHelpText(
      'after',
      `
Examples:
  waymark checkpoints
  waymark checkpoints --left-out 3f2a91c
  waymark restore 3f2a91c`,
    )
    .action(async (conversation: string | undefined, flags: CheckpointsFlags) => {
      const client = await connect(flags)
      const id = await conversationId(client, conversation)
      if (flags.leftOut !== undefined) {
        const { left_out } = await client.checkpoint(id, flags.leftOut)
        if (flags.json) return console.log(JSON.stringify(left_out, null, 2))
        if (left_out.length === 0) console.log('It left nothing out.')
        for (const { path, reason } of left_out) console.log(`${reason.padEnd(10)}  ${printable(path)}`)
        return
      }
      const limit = Math.min(Math.max(Number(flags.limit) || PAGE, 1), PAGE)
      const { items, next_cursor } = await client.checkpoints(id, { limit })
      if (flags.json) return console.log(JSON.stringify(items, null, 2))
      if (items.length === 0) return console.log('There is no checkpoint yet.')
      for (const item of items) {
        const files = `${count(item.files, 'file')}, ${item.changed} changed`
        const when = item.created_at.slice(0, 19).replace('T', ' ')
        console.log(`${bold(item.checkpoint_id.slice(0, SHORT_ID))}  ${dim(when)}  ${item.work_session}`)
        console.log(`            ${printable(item.label)}  ${dim(`(${files})`)}`)
      }
      if (next_cursor !== null) console.log(dim(`There are more: --limit ${PAGE}`))
    })
}
