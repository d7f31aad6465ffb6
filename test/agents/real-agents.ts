import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Config } from '../../src/config.ts'

/** The agents as `npm run test:agents` installs them, unmodified, with the demo model as their provider. */

export const installed = fileURLToPath(new URL('./node_modules', import.meta.url))
const program = (name: string) => join(installed, '.bin', name)

export interface RealAgent {
  name: string
  isInstalled: boolean
  /** A line for the demo model that has the agent run a shell command. */
  shell(command: string, isAsking?: boolean): string
  /** A line that has it write a file with its own edit tool. */
  edit(path: string, text: string): string
  /** A line that has it make a plan of one step. */
  plan(step: string): string
  /** What it needs in its home folder, and in its environment. */
  prepare(home: string, modelUrl: string, isAsking: boolean): Config['agents'][string]
}

const json = (value: unknown) => JSON.stringify(value)

/** A patch as Codex reads it. */
const addition = (path: string, text: string) =>
  `*** Begin Patch\n*** Add File: ${path}\n${text.replace(/^(?=.)/gm, '+')}*** End Patch`

export const realAgents: RealAgent[] = [
  {
    name: 'codex',
    isInstalled: existsSync(program('codex-acp')),
    shell: (command, isAsking) => {
      const asking = { sandbox_permissions: 'require_escalated', justification: 'x' }
      return `!exec_command ${json({ cmd: command, ...(isAsking ? asking : {}) })}`
    },
    edit: (path, text) =>
      `!exec_command ${json({ cmd: `apply_patch <<'EOF'\n${addition(path, text)}\nEOF` })}`,
    plan: (step) => `!update_plan ${json({ plan: [{ step, status: 'in_progress' }] })}`,
    prepare(home, modelUrl, isAsking) {
      mkdirSync(join(home, '.codex'), { recursive: true })
      const config = `model = "demo"
model_provider = "local"
approval_policy = "${isAsking ? 'on-request' : 'never'}"
sandbox_mode = "danger-full-access"
[tools]
update_plan = { enabled = true }
[model_providers.local]
name = "local"
base_url = "${modelUrl}"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
`
      writeFileSync(join(home, '.codex/config.toml'), config)
      return {
        command: program('codex-acp'),
        mode: isAsking ? 'workspace-write' : 'agent-full-access',
        env: { HOME: home, CODEX_HOME: join(home, '.codex'), OPENAI_API_KEY: 'x' },
      }
    },
  },
  {
    name: 'opencode',
    isInstalled: existsSync(program('opencode')),
    shell: (command) => `!bash ${json({ command, description: 'x' })}`,
    edit: (path, text) => `!write ${json({ filePath: path, content: text })}`,
    plan: (content) =>
      `!todowrite ${json({ todos: [{ content, status: 'in_progress', priority: 'high' }] })}`,
    prepare(home, modelUrl, isAsking) {
      mkdirSync(join(home, '.config/opencode'), { recursive: true })
      const options = { baseURL: modelUrl, apiKey: 'x' }
      const models = { demo: { name: 'demo' } }
      const config = {
        model: 'local/demo',
        small_model: 'local/demo',
        permission: isAsking ? { bash: 'ask', edit: 'ask' } : { bash: 'allow', edit: 'allow' },
        provider: { local: { npm: '@ai-sdk/openai', name: 'local', options, models } },
      }
      writeFileSync(join(home, '.config/opencode/opencode.json'), json(config))
      return { command: program('opencode'), args: ['acp'], env: { HOME: home } }
    },
  },
  {
    name: 'claude',
    isInstalled: existsSync(program('claude-agent-acp')),
    shell: (command) => `!Bash ${json({ command, description: 'x' })}`,
    edit: (path, text) => `!Write ${json({ file_path: path, content: text })}`,
    plan: (content) => `!TaskCreate ${json({ subject: content, description: content })}`,
    prepare(home, modelUrl, isAsking) {
      mkdirSync(join(home, '.claude'), { recursive: true })
      const permissions = isAsking ? {} : { allow: ['Bash', 'Write', 'Edit'] }
      writeFileSync(join(home, '.claude/settings.json'), json({ permissions }))
      return {
        command: program('claude-agent-acp'),
        env: {
          HOME: home,
          CLAUDE_CONFIG_DIR: join(home, '.claude'),
          ANTHROPIC_BASE_URL: modelUrl.replace(/\/v1$/, ''),
          ANTHROPIC_API_KEY: 'x',
          ANTHROPIC_MODEL: 'demo',
          IS_SANDBOX: '1',
          CLAUDE_CODE_ENABLE_TODO_TOOLS: '1',
          DISABLE_TELEMETRY: '1',
          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        },
      }
    },
  },
]
