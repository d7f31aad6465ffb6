import { Option } from 'commander'
import { type Client, createClient } from '../client/index.ts'
import { type Config, callerFolder } from '../config.ts'
import { readServerNote, readToken } from '../data-dir.ts'
import type { Conversation } from '../protocol/api/conversations.ts'
import { untrustedPart } from '../trust.ts'
import { configAbove } from './options.ts'
import { CommandError, printable, say } from './output.ts'

/** Connects to the server named in the settings, or to the one running for this project. */
export async function connect(flags: Record<string, unknown>): Promise<Client> {
  return createClient(await serverOf(flags))
}

/** The address and token of that server. */
export async function serverOf(flags: Record<string, unknown>): Promise<{ url: string; token: string }> {
  const config = configAbove(flags)
  await checkFile(config)
  const url = config.url ?? (await readServerNote(config.privateDir))?.url
  if (!url) {
    throw new CommandError(`no server is running for ${config.project}; start one with: waymark serve`)
  }
  const token = config.token ?? (await readToken(config.privateDir))
  if (!token) throw new CommandError('no token found; set WAYMARK_TOKEN')
  return { url, token }
}

const SENDS_TOKEN = new Set(['url', 'token'])

/** A project's settings file must not send the token to a server that the user has not approved. */
async function checkFile(config: Config): Promise<void> {
  const named = config.untrusted?.settings.filter((name) => SENDS_TOKEN.has(name)) ?? []
  if (named.length === 0 || (await untrustedPart({ ...config, dataDir: config.privateDir })) === null) return
  throw new CommandError(
    `${config.untrusted?.file} sets ${named.join(', ')}; review it, and if you trust it run once: waymark serve --trust`,
  )
}

/** The named conversation, else the one whose working copy is the current folder, else the most recently changed. */
export async function conversationId(client: Client, named: string | undefined): Promise<string> {
  const id = named ?? copyHere() ?? (await lastConversation(client))
  if (id === null) throw new CommandError('no conversations yet; start one with: waymark chat')
  return id
}

/** The help of `--model` in commands that send messages. */
export const MODEL_HELP =
  'use this model from now on, as `waymark models` lists them; "default" for the default'

/** The help of `--agent` in commands that send messages. */
export const AGENT_HELP =
  'use this agent from now on, as `waymark agents` lists them; "own" for Waymark\'s own'

const modes = ['ask', 'edit', 'read_only'] as const

/** The flag `--mode` of commands that send messages. */
export function modeOption(): Option {
  const about =
    'what the agent may do without asking from now on: read and edit (ask), also run commands in the sandbox (edit), or only read (read_only)'
  return new Option('--mode <mode>', about).choices(modes)
}

/** A model that no server lists may still exist, so it is only reported. */
export async function warnIfUnlisted(client: Client, model: string): Promise<void> {
  const { items } = await client.models()
  const isListed = items.some(({ name, models }) =>
    models.some((one) => model === one || model === `${name}/${one}`),
  )
  if (!isListed) say(`waymark: no server lists a model named ${printable(model)}; see \`waymark models\``)
}

/** Like `conversationId`, but creates a conversation when requested or when none exists. */
export async function conversationOrNew(
  client: Client,
  wanted: {
    conversation?: string | undefined
    new?: boolean | undefined
    title?: string | undefined
    model?: string | undefined
    agent?: string | undefined
    mode?: Conversation['mode'] | undefined
  },
): Promise<Conversation> {
  if (wanted.new && wanted.conversation)
    throw new CommandError('--new and a conversation id exclude each other')
  const id = wanted.new ? null : (wanted.conversation ?? copyHere() ?? (await lastConversation(client)))
  if (id !== null && wanted.title !== undefined) {
    throw new CommandError('--title needs --new')
  }
  const settings = {
    ...(wanted.model === undefined ? {} : { model: wanted.model === 'default' ? null : wanted.model }),
    ...(wanted.mode === undefined ? {} : { mode: wanted.mode }),
    ...(wanted.agent === undefined ? {} : { agent: wanted.agent === 'own' ? null : wanted.agent }),
  }
  if (wanted.model !== undefined && wanted.model !== 'default') await warnIfUnlisted(client, wanted.model)
  if (id === null) {
    return await client.createConversation({
      ...(wanted.title === undefined ? {} : { title: wanted.title }),
      ...settings,
    })
  }
  return Object.keys(settings).length === 0
    ? await client.conversation(id)
    : await client.changeConversation(id, settings)
}

/** The conversation whose working copy contains the current folder. */
function copyHere(): string | null {
  const here = callerFolder()
  return COPY.exec(here)?.[1] ?? null
}

/** Matches the path of a working copy in the data folder. */
export const COPY = /[\\/]workspaces[\\/](conv_[0-9a-z]{26})(?:[\\/]|$)/

async function lastConversation(client: Client): Promise<string | null> {
  const { items } = await client.listConversations({ limit: 1 })
  return items[0]?.id ?? null
}
