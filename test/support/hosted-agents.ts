import { fileURLToPath } from 'node:url'
import type { Config } from '../../src/config.ts'

/** The settings for the test agent of `acp-agent.ts`; `without` names features that it lacks. */
export function testAgent(sessions: string, without = ''): Pick<Config, 'agents'> {
  const script = fileURLToPath(new URL('./acp-agent.ts', import.meta.url))
  return {
    agents: {
      test: {
        command: process.execPath,
        args: ['--disable-warning=ExperimentalWarning', script],
        env: { ACP_SESSIONS: sessions, ACP_WITHOUT: without },
      },
    },
  }
}
