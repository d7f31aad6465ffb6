import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Client, createClient } from '../../src/client/index.ts'
import type { Config } from '../../src/config.ts'

const serverFile = fileURLToPath(new URL('../crash/run-server.ts', import.meta.url))

/** A server in a separate process. */
export interface ServerProcess {
  process: ChildProcess
  client: Client
  url: string
  token: string
  kill(): Promise<void>
}

export async function startServerProcess(
  project: string,
  options: { port?: number; config?: Partial<Config> } = {},
): Promise<ServerProcess> {
  const { port = 0, config = {} } = options
  const child = fork(serverFile, [project, String(port), JSON.stringify(config)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const [ready] = (await once(child, 'message')) as [{ url: string; token: string }]
  return {
    process: child,
    client: createClient(ready),
    ...ready,
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}
