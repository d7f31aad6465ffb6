// Writes the documents that are generated from the code: `npm run docs`. A test fails when they are out of date.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { createProgram } from '../src/cli/program.ts'
import { settings } from '../src/config.ts'

export async function generatedDocs(): Promise<Record<string, string>> {
  return { 'docs/settings.md': settingsText(), 'docs/cli.md': await cliText() }
}

function settingsText(): string {
  const rows = Object.entries(settings).map(([name, { flag, variable, about }]) => {
    const flagText = flag ? `\`${flag}\`` : '–'
    return `| \`${name}\` | ${flagText} | \`${variable}\` | ${about} |`
  })
  return `# Settings

A flag overrides a variable, and a variable overrides \`waymark.config.json\` in the project folder, which uses the names of
the first column. The file cannot set \`project\`, because it is found through the project.

| setting | flag | variable | meaning |
| --- | --- | --- | --- |
${rows.join('\n')}
`
}

async function cliText(): Promise<string> {
  return `# Command line\n\n${sections(await createProgram()).join('\n')}`
}

function sections(command: Command): string[] {
  let text = ''
  command.configureOutput({
    writeOut: (chunk) => {
      text += chunk
    },
    getOutHelpWidth: () => 100,
  })
  command.outputHelp()
  const own = `## ${nameOf(command)}\n\n\`\`\`text\n${text.trimEnd()}\n\`\`\`\n`
  return [own, ...command.commands.flatMap(sections)]
}

function nameOf(command: Command): string {
  return command.parent ? `${nameOf(command.parent)} ${command.name()}` : command.name()
}

if (import.meta.main) {
  for (const [path, text] of Object.entries(await generatedDocs())) {
    writeFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), text)
    console.log(`wrote ${path}`)
  }
}
