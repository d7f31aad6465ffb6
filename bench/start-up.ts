// Time from starting the built command in a new project to its first response, against a bare Node HTTP server.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { freePort } from '../test/support/free-port.ts'
import { median, milliseconds, report, say, times } from './support/figure.ts'
import { temporaryFolder } from './support/store.ts'

const ROUNDS = 7
const cli = fileURLToPath(new URL('../dist/cli/waymark.js', import.meta.url))
const bare = 'require("node:http").createServer((q, r) => r.end("{}")).listen(process.argv[1], "127.0.0.1")'

const own: number[] = []
const peer: number[] = []
for (let round = 1; round <= ROUNDS; round++) {
  const { folder, remove } = await temporaryFolder()
  const port = String(await freePort())
  own.push(await untilFirstAnswer([cli, 'serve', '--project', folder, '--port', port], port))
  await remove()
  const barePort = String(await freePort())
  peer.push(await untilFirstAnswer(['-e', bare, barePort], barePort))
  say(`round ${round}: ${milliseconds(own.at(-1) ?? 0)} against ${milliseconds(peer.at(-1) ?? 0)}`)
}

report([
  {
    figure: 'start-up to the first response, new project; peer: a bare Node HTTP server',
    ours: milliseconds(median(own)),
    peer: milliseconds(median(peer)),
    ratio: times(median(own) / median(peer)),
    wanted: 'under 1 s',
    met: median(own) < 1000,
  },
])

async function untilFirstAnswer(args: string[], port: string): Promise<number> {
  const started = performance.now()
  const child = spawn(process.execPath, args, { stdio: 'ignore' })
  for (;;) {
    const answered = await fetch(`http://127.0.0.1:${port}/health`).then(
      (response) => response.ok,
      () => false,
    )
    if (answered) break
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const taken = performance.now() - started
  child.kill('SIGKILL')
  await once(child, 'exit')
  return taken
}
