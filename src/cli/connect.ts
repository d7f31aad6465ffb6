import { type Client, createClient } from '../client/index.ts'
import { readServerNote, readToken } from '../data-dir.ts'
import { configOf } from './options.ts'
import { CommandError } from './output.ts'

/** The server that runs for this project, or the one that was named. */
export async function connect(flags: Record<string, unknown>): Promise<Client> {
  const config = configOf(flags)
  const url = config.url ?? (await readServerNote(config.dataDir))?.url
  if (!url) {
    throw new CommandError(`no server is running for ${config.project}; start one with: waymark serve`)
  }
  const token = config.token ?? (await readToken(config.dataDir))
  if (!token) throw new CommandError('there is no token; set WAYMARK_TOKEN')
  return createClient({ url, token })
}

/** The conversation that was named, or the one that changed last. */
export async function conversationId(client: Client, named: string | undefined): Promise<string> {
  if (named !== undefined) return named
  const { items } = await client.listConversations({ limit: 1 })
  const [last] = items
  if (!last) throw new CommandError('there is no conversation yet')
  return last.id
}
