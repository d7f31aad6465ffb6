import type { Command } from 'commander'
import { connect, conversationId, warnIfUnlisted } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, dim, printable, printJson } from './output.ts'

interface ModelsFlags extends Record<string, unknown> {
  json?: boolean
  use?: string
  conversation?: string
}

const SHOWN = 20

export function modelsCommand(): Command {
  return commandWith('models', ['project', 'dataDir', 'url'])
    .description('List the models that conversations can use, or choose one for a conversation')
    .argument('[provider]', 'list all models of this provider')
    .option(
      '--use <model>',
      'use this model in the conversation from now on; "default" for the server\'s default',
    )
    .option('-c, --conversation <id>', 'conversation id (default: the most recently changed)')
    .option('--json', 'print as JSON')
    .addHelpText(
      'after',
      `
A model's name is provider/model. Set a provider's key before starting the server: OPENAI_API_KEY, ANTHROPIC_API_KEY,
GEMINI_API_KEY, OPENROUTER_API_KEY, or OLLAMA_HOST; or start it with --base-url.

Examples:
  waymark models
  waymark models openrouter
  waymark models --use anthropic/claude-sonnet-4-5
  waymark models --use default`,
    )
    .action(async (provider: string | undefined, flags: ModelsFlags) => {
      const client = await connect(flags)
      if (flags.use !== undefined) {
        const id = await conversationId(client, flags.conversation)
        if (flags.use !== 'default') await warnIfUnlisted(client, flags.use)
        const { model } = await client.changeConversation(id, {
          model: flags.use === 'default' ? null : flags.use,
        })
        return console.log(`${id} uses ${model === null ? "the server's default model" : printable(model)}.`)
      }
      const [{ items }, about] = await Promise.all([client.models(), client.about()])
      if (flags.json) return printJson(items)
      const shown = items.filter(({ name }) => provider === undefined || name === provider)
      if (shown.length === 0) {
        const names = items.map(({ name }) => name).join(', ')
        throw new CommandError(`no provider named ${provider}; available: ${names}`)
      }
      console.log(`Default: ${bold(printable(about.model.name))}`)
      for (const { name, url, models, problem } of shown) {
        console.log(`\n${bold(name)}${url === null ? '' : dim(`  ${printable(url)}`)}`)
        if (problem !== null) console.log(`  ${printable(problem)}`)
        const most = provider === undefined ? SHOWN : models.length
        for (const model of models.slice(0, most)) {
          console.log(`  ${printable(name === 'demo' ? model : `${name}/${model}`)}`)
        }
        const more = models.length - most
        if (more > 0) console.log(dim(`  … and ${more} more: waymark models ${name}`))
      }
    })
}
