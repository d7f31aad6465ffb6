import { Command } from 'commander'
import { type Scope, scopes } from '../protocol/api/service.ts'
import { openStore, type Store } from '../server/store.ts'
import { issueToken } from '../server/tokens.ts'
import { openExisting } from './existing-store.ts'
import { assertTrusted, commandWith, configOf, storeSettings } from './options.ts'
import { CommandError, printJson } from './output.ts'

export function tokenCommand(): Command {
  return new Command('token')
    .description('Create, list and revoke tokens')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(revokeCommand())
}

const MAX_DAYS = 36_500

function createCommand(): Command {
  return commandWith('create', storeSettings)
    .description('Create a token and print it once')
    .argument('<name>', 'a name for the token')
    .option('--tenant <tenant>', 'the tenant whose conversations it can access', 'default')
    .option('--scopes <scopes>', `comma-separated: ${scopes.join(', ')}`, 'conversations:read')
    .option('--days <days>', 'days until it expires (default: never)')
    .addHelpText(
      'after',
      `
Examples:
  waymark token create dashboard
  waymark token create ci --tenant acme --scopes conversations:read,conversations:write --days 90`,
    )
    .action((name: string, flags: Record<string, string>) =>
      withStore(openTrusted(flags), async ({ tokens }) => {
        const secret = await issueToken(tokens, {
          name: nonEmpty(name, 'the name'),
          tenant: nonEmpty(flags.tenant ?? 'default', '--tenant'),
          scopes: parseScopes(flags.scopes ?? ''),
          days: flags.days === undefined ? null : parseDays(flags.days),
        })
        console.log(secret)
      }),
    )
}

function listCommand(): Command {
  return commandWith('list', storeSettings)
    .description('List the tokens; secrets are not stored')
    .option('--json', 'print as JSON')
    .action((flags: Record<string, string>) =>
      withStore(openExisting(flags), async ({ tokens }) => {
        if (flags.json) return printJson(await tokens.list())
        for (const token of await tokens.list()) {
          const until = token.expiresAt === null ? '' : `  until ${token.expiresAt}`
          const columns = [token.id, token.tenant.padEnd(12), token.name.padEnd(12), token.scopes.join(',')]
          console.log(`${columns.join('  ')}${until}`)
        }
      }),
    )
}

function revokeCommand(): Command {
  return commandWith('revoke', storeSettings)
    .description('Revoke a token immediately')
    .argument('<id>', 'token id, as `waymark token list` shows it')
    .action((id: string, flags: Record<string, string>) =>
      withStore(openExisting(flags), async ({ tokens }) => {
        if (!(await tokens.revoke(id))) throw new CommandError(`no token with id ${id}`)
        console.log(`revoked ${id}`)
      }),
    )
}

async function openTrusted(flags: Record<string, unknown>): Promise<Store> {
  const config = configOf(flags)
  await assertTrusted(config)
  return await openStore(config)
}

async function withStore(opening: Promise<Store>, use: (store: Store) => Promise<void>): Promise<void> {
  const store = await opening
  try {
    await use(store)
  } finally {
    await store.close()
  }
}

function nonEmpty(text: string, what: string): string {
  if (text.trim() === '') throw new CommandError(`${what} must not be empty`)
  return text
}

function parseScopes(text: string): Scope[] {
  const names = text.split(',').map((name) => name.trim())
  const unknown = names.filter((name) => !(scopes as readonly string[]).includes(name))
  if (unknown.length > 0)
    throw new CommandError(`unknown scope: ${unknown.map((name) => JSON.stringify(name)).join(', ')}`)
  return names as Scope[]
}

function parseDays(text: string): number {
  const days = Number(text)
  if (!(days > 0 && days <= MAX_DAYS)) throw new CommandError(`--days must be a number up to ${MAX_DAYS}`)
  return days
}
