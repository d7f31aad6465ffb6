import type { Command } from 'commander'
import type { Family } from '../protocol/api/lines.ts'
import { parseCopyWorkspaceId } from '../protocol/ids.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, dim, localTime, printable, printJson } from './output.ts'

type Member = Family['items'][number]

export function treeCommand(): Command {
  return commandWith('tree', ['project', 'dataDir', 'url'])
    .description('Show the whole family of a conversation: its root and all forks')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
Examples:
  waymark tree
  waymark tree --json | jq '.items[].conversation_id'`,
    )
    .action(async (conversation: string | undefined, flags: Record<string, unknown>) => {
      const client = await connect(flags)
      const id = await conversationId(client, conversation)
      const family = await client.tree(id)
      if (flags.json) return printJson(family)
      for (const line of linesOf(family, id)) console.log(line)
    })
}

/** Depth first, without recursion, because families may be deep. */
function* linesOf({ root, items }: Family, current: string): Generator<string> {
  const home = items.find((item) => item.conversation_id === root)?.workspace_id ?? null
  const children = new Map<string | null, Member[]>()
  for (const item of items) {
    const parent = item.conversation_id === root ? null : (item.parent?.conversation_id ?? null)
    children.set(parent, [...(children.get(parent) ?? []), item])
  }
  const open = (children.get(null) ?? []).map((member) => ({ member, depth: 0 })).toReversed()
  for (let next = open.pop(); next; next = open.pop()) {
    const { member, depth } = next
    yield lineOf(member, depth, member.conversation_id === current, home)
    const below = (children.get(member.conversation_id) ?? []).toReversed()
    open.push(...below.map((child) => ({ member: child, depth: depth + 1 })))
  }
}

/** Maximum indentation depth, so that lines still fit. */
const MAX_SHIFT = 20

function lineOf(member: Member, depth: number, isCurrent: boolean, home: string | null): string {
  const shift = depth === 0 ? '' : `${'  '.repeat(Math.min(depth, MAX_SHIFT) - 1)}└ `
  const from = member.parent === null ? '' : dim(`  from event ${member.parent.event_number}`)
  const mark = isCurrent ? ' ←' : ''
  if (member.is_deleted) return `${shift}${dim(`${member.conversation_id}  deleted`)}${from}`
  const when = dim(localTime(member.updated_at))
  const title = member.title === null ? '' : `  ${printable(member.title)}`
  const copy = parseCopyWorkspaceId(member.workspace_id)?.conversationId
  const files = copy === undefined || member.workspace_id === home ? '' : dim(`  files in workspaces/${copy}`)
  return `${shift}${bold(member.conversation_id)}  ${when}${title}${from}${files}${mark}`
}
