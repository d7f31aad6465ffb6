import type { Command } from 'commander'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, dim, printable, printJson } from './output.ts'

interface AgentsFlags extends Record<string, unknown> {
  json?: boolean
  use?: string
  conversation?: string
}

export function agentsCommand(): Command {
  return commandWith('agents', ['project', 'dataDir', 'url'])
    .description('List the agents that conversations can use, or choose one for a conversation')
    .option('--use <agent>', 'use this agent in the conversation from now on; "own" for Waymark\'s own')
    .option('-c, --conversation <id>', 'conversation id (default: the most recently changed)')
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
Codex, Claude Code, opencode and Gemini CLI are found on the server's PATH; the setting "agents" adds others that speak the
Agent Client Protocol.

Examples:
  waymark agents
  waymark agents --use codex
  waymark agents --use own
  waymark chat --new --agent claude`,
    )
    .action(async (flags: AgentsFlags) => {
      const client = await connect(flags)
      if (flags.use !== undefined) {
        const id = await conversationId(client, flags.conversation)
        const { agent } = await client.changeConversation(id, {
          agent: flags.use === 'own' ? null : flags.use,
        })
        console.log(`${id} uses ${agent === null ? "Waymark's own agent" : printable(agent)}.`)
        const chosen = (await client.agents()).items.find(({ name }) => name === agent)
        if (chosen?.is_installed === false)
          console.log(
            `${printable(chosen.title)} is not installed${chosen.install === null ? '.' : `. Install it with: ${chosen.install}`}`,
          )
        return
      }
      const { items } = await client.agents()
      if (flags.json) return printJson(items)
      console.log(`${bold('own')}  Waymark's own agent, with the model of the conversation`)
      for (const { name, title, is_installed, install } of items) {
        const state = is_installed
          ? 'installed'
          : install === null
            ? 'not found'
            : `not installed: ${install}`
        console.log(`${bold(printable(name))}  ${printable(title)} ${dim(`(${printable(state)})`)}`)
      }
    })
}
