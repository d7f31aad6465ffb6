import { Readable, Writable } from 'node:stream'
import type { Command } from 'commander'
import type { Client } from '../client/index.ts'
import { connect } from './connect.ts'
import { commandWith } from './options.ts'

export function acpCommand(): Command {
  return commandWith('acp', ['project', 'dataDir', 'url'])
    .description('Speak the Agent Client Protocol on standard input and output, for editors')
    .addHelpText(
      'after',
      `
Editors start this command. It connects to the server that runs for the editor's folder; start one with: waymark serve

Example, in Zed's settings:
  "agent_servers": { "Waymark": { "type": "custom", "command": "waymark", "args": ["acp"] } }`,
    )
    .action(async (flags: Record<string, unknown>) => {
      const { ndJsonStream } = await import('@agentclientprotocol/sdk')
      const { createAcpAgent } = await import('../acp/acp-agent.ts')
      const clients = new Map<string, Promise<Client>>()
      const agent = createAcpAgent({
        clientFor(cwd) {
          let client = clients.get(cwd)
          if (!client) {
            client = connect({ ...flags, project: flags.project ?? cwd })
            clients.set(cwd, client)
            // A server may be started meanwhile.
            client.catch(() => clients.delete(cwd))
          }
          return client
        },
      })
      const input = Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>
      const connection = agent.connect(ndJsonStream(Writable.toWeb(process.stdout), input))
      await connection.closed
      process.exit(0)
    })
}
