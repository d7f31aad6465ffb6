import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export async function startModelProcess(): Promise<{ url: string; stop(): Promise<void> }> {
  const child = fork(fileURLToPath(new URL('./model-process.ts', import.meta.url)), [], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const [url] = (await once(child, 'message')) as [string]
  return {
    url,
    async stop() {
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}
