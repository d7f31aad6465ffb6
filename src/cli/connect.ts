import { type Client, createClient } from '../client/index.ts'
import type { Config } from '../config.ts'
import { readServerNote, readToken } from '../data-dir.ts'
import type { Conversation } from '../protocol/api/conversations.ts'
import { untrustedPart } from '../trust.ts'
import { configAbove } from './options.ts'
import { CommandError } from './output.ts'

/** The server that runs for this project, or the one that was named. */
export async function connect(flags: Record<string, unknown>): Promise<Client> {
  const config = configAbove(flags)
  await checkFile(config)
  const url = config.url ?? (await readServerNote(config.privateDir))?.url
  if (!url) {
    throw new CommandError(`no server is running for ${config.project}; start one with: waymark serve`)
  }
  const token = config.token ?? (await readToken(config.privateDir))
  if (!token) throw new CommandError('there is no token; set WAYMARK_TOKEN')
  return createClient({ url, token })
}

const SENDS_TOKEN = new Set(['url', 'token'])

/** A project's file must not send our token anywhere that its owner has not agreed to. */
async function checkFile(config: Config): Promise<void> {
  const named = config.untrusted?.settings.filter((name) => SENDS_TOKEN.has(name)) ?? []
  if (named.length === 0 || (await untrustedPart({ ...config, dataDir: config.privateDir })) === null) return
  throw new CommandError(
    `${config.untrusted?.file} sets ${named.join(', ')}; look at it, and if you agree run once: waymark serve --trust`,
  )
}

/** The conversation that was named, or whose working copy we are in, or the one that changed last. */
export async function conversationId(client: Client, named: string | undefined): Promise<string> {
  const id = named ?? copyHere() ?? (await lastConversation(client))
  if (id === null) throw new CommandError('there is no conversation yet; `waymark chat` begins one')
  return id
}

/** The same, but a new one when it is asked for or there is none. */
export async function conversationOrNew(
  client: Client,
  wanted: { conversation?: string | undefined; new?: boolean | undefined; title?: string | undefined },
): Promise<Conversation> {
  if (wanted.new && wanted.conversation)
    throw new CommandError('a conversation is either new or named, not both')
  const id = wanted.new ? null : (wanted.conversation ?? copyHere() ?? (await lastConversation(client)))
  if (id !== null && wanted.title !== undefined) {
    throw new CommandError('--title is for a new conversation; add --new')
  }
  if (id !== null) return await client.conversation(id)
  return await client.createConversation(wanted.title === undefined ? {} : { title: wanted.title })
}

/** The conversation whose working copy the person is in. */
function copyHere(): string | null {
  const here = process.env.INIT_CWD ?? process.cwd()
  return COPY.exec(here)?.[1] ?? null
}

/** Where working copies are, below the data folder. */
export const COPY = /[\\/]workspaces[\\/](conv_[0-9a-z]{26})(?:[\\/]|$)/

async function lastConversation(client: Client): Promise<string | null> {
  const { items } = await client.listConversations({ limit: 1 })
  return items[0]?.id ?? null
}
