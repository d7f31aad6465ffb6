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
  const open: Branch[] = (children.get(null) ?? [])
    .map((member) => ({ member, prefix: '', childPrefix: '', depth: 0 }))
    .toReversed()
  for (let next = open.pop(); next; next = open.pop()) {
    const { member, prefix, childPrefix, depth } = next
    yield lineOf(member, prefix, member.conversation_id === current, home)
    const below = children.get(member.conversation_id) ?? []
    const deeper = below.map((child, index): Branch => {
      const isLast = index === below.length - 1
      const isTooDeep = depth >= MAX_DEPTH
      return {
        member: child,
        prefix: `${childPrefix}${isLast ? '└ ' : '├ '}`,
        childPrefix: isTooDeep ? childPrefix : `${childPrefix}${isLast ? '  ' : '│ '}`,
        depth: depth + 1,
      }
    })
    open.push(...deeper.toReversed())
  }
}

interface Branch {
  member: Member
  /** The text before the conversation. */
  prefix: string
  /** The text before its forks, without their connector. */
  childPrefix: string
  depth: number
}

/** Deeper conversations are not indented further, so that lines still fit. */
const MAX_DEPTH = 20

function lineOf(member: Member, prefix: string, isCurrent: boolean, home: string | null): string {
  const from = member.parent === null ? '' : dim(`  from event ${member.parent.event_number}`)
  const mark = isCurrent ? ' ←' : ''
  if (member.is_deleted) return `${prefix}${dim(`${member.conversation_id}  deleted`)}${from}`
  const when = dim(localTime(member.updated_at))
  const title = member.title === null ? '' : `  ${printable(member.title)}`
  const copy = parseCopyWorkspaceId(member.workspace_id)?.conversationId
  const files = copy === undefined || member.workspace_id === home ? '' : dim(`  files in workspaces/${copy}`)
  return `${prefix}${bold(member.conversation_id)}  ${when}${title}${from}${files}${mark}`
}
