import type { Command } from 'commander'
import type { CheckpointList } from '../protocol/api/work.ts'
import { checkpointId, SHORT_ID, wholeNumber } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, count, dim, localTime, printable, printJson } from './output.ts'

interface CheckpointsFlags extends Record<string, unknown> {
  limit: number
  leftOut?: string
  json?: boolean
}

const PAGE = 200

export function checkpointsCommand(): Command {
  return commandWith('checkpoints', ['project', 'dataDir', 'url'])
    .description('List the checkpoints, newest first')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('--limit <number>', 'how many to list', wholeNumber, 20)
    .option(
      '--left-out <checkpoint>',
      'list the files left out of this checkpoint, with reasons',
      checkpointId,
    )
    .option('--json', 'print as JSON')
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
        if (flags.json) return printJson(left_out)
        if (left_out.length === 0) console.log('No files were left out.')
        for (const { path, reason } of left_out) console.log(`${reason.padEnd(10)}  ${printable(path)}`)
        return
      }
      const items: CheckpointList['items'] = []
      let cursor: string | undefined
      do {
        const limit = Math.min(flags.limit - items.length, PAGE)
        const page = await client.checkpoints(id, { limit, ...(cursor === undefined ? {} : { cursor }) })
        items.push(...page.items)
        cursor = page.next_cursor ?? undefined
      } while (cursor !== undefined && items.length < flags.limit)
      if (flags.json) return printJson(items)
      if (items.length === 0) return console.log('No checkpoints yet.')
      console.log(dim(id))
      for (const item of items) {
        const left = item.excluded === 0 ? '' : `, ${item.excluded} left out`
        const files = `${count(item.files, 'file')}, ${item.changed} changed${left}`
        const when = localTime(item.created_at)
        console.log(`${bold(item.checkpoint_id.slice(0, SHORT_ID))}  ${dim(when)}  ${item.work_session}`)
        console.log(`            ${printable(item.label)}  ${dim(`(${files})`)}`)
      }
      if (cursor !== undefined) console.log(dim(`More available: --limit ${flags.limit * 10}`))
    })
}
