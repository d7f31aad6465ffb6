/** Agents that Waymark knows how to start; the setting `agents` adds others, or replaces one of these. */

export interface AgentPreset {
  /** Shown to people. */
  title: string
  command: string
  args: readonly string[]
  /** Variables that the agent needs besides those that commands get: its keys, its folder, its server. */
  variables: readonly string[]
  /** How to install it. */
  install: string
  /** A fork of its session works in the folder that it is given. opencode's stays in the old one. */
  forksElsewhere: boolean
}

export const agentPresets: Readonly<Record<string, AgentPreset>> = {
  codex: {
    title: 'Codex',
    command: 'codex-acp',
    args: [],
    variables: ['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'CODEX_API_KEY', 'CODEX_HOME', 'CODEX_PATH'],
    install: 'npm install -g @openai/codex @agentclientprotocol/codex-acp',
    forksElsewhere: true,
  },
  claude: {
    title: 'Claude Code',
    command: 'claude-agent-acp',
    args: [],
    variables: [
      'ANTHROPIC_API_KEY',
      'ANTHROPIC_AUTH_TOKEN',
      'ANTHROPIC_BASE_URL',
      'ANTHROPIC_MODEL',
      'CLAUDE_CODE_OAUTH_TOKEN',
      'CLAUDE_CONFIG_DIR',
      'IS_SANDBOX',
    ],
    install: 'npm install -g @anthropic-ai/claude-code @agentclientprotocol/claude-agent-acp',
    forksElsewhere: true,
  },
  opencode: {
    title: 'opencode',
    command: 'opencode',
    args: ['acp'],
    variables: [
      'OPENAI_API_KEY',
      'ANTHROPIC_API_KEY',
      'OPENROUTER_API_KEY',
      'XDG_CONFIG_HOME',
      'XDG_DATA_HOME',
    ],
    install: 'npm install -g opencode-ai',
    forksElsewhere: false,
  },
  gemini: {
    title: 'Gemini CLI',
    command: 'gemini',
    args: ['--experimental-acp'],
    variables: ['GEMINI_API_KEY', 'GOOGLE_API_KEY', 'GOOGLE_CLOUD_PROJECT'],
    install: 'npm install -g @google/gemini-cli',
    forksElsewhere: false,
  },
}
