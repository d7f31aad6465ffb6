import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Config } from '../../src/config.ts'
import type { BenchRequest } from './bench-server.ts'
import { temporaryFolder } from './store.ts'

export async function startBenchServer(config: Partial<Config> = {}) {
  const { folder, remove } = await temporaryFolder()
  const file = fileURLToPath(new URL('./bench-server.ts', import.meta.url))
  const child = fork(file, [folder, JSON.stringify(config)], {
    execArgv: ['--expose-gc'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const [ready] = (await once(child, 'message')) as [{ url: string; token: string; conversationId: string }]
  return {
    ...ready,
    async ask<T>(request: BenchRequest): Promise<T> {
      child.send(request)
      const [answer] = await once(child, 'message')
      return answer as T
    },
    async stop() {
      child.kill('SIGKILL')
      await once(child, 'exit')
      await remove()
    },
  }
}
