// A command in the sandbox, against the same command outside it.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { runCommandTool } from '../src/agent/tools/run-command.ts'
import { findSandbox } from '../src/sandbox/sandbox.ts'
import { tryOut } from '../src/sandbox/start.ts'
import { median, milliseconds, report, say, times } from './support/figure.ts'
import { temporaryFolder } from './support/store.ts'

const ROUNDS = 60
const path = process.env.PATH ?? ''
const { folder, remove } = await temporaryFolder()
const { sandbox, why } = await findSandbox({ path, tryOut })
if (!sandbox) throw new Error(why)
const [workspace, home] = [join(folder, 'project'), join(folder, 'home')]
for (const one of [workspace, home]) mkdirSync(one)
const place = { workspace, home, privateHome: join(folder, 'private'), hidden: [], path }
const tool = runCommandTool({
  root: workspace,
  environment: { PATH: path, HOME: home },
  sandbox: { sandbox, place },
  network: false,
})

async function time(outside: boolean): Promise<number> {
  const started = performance.now()
  const signal = new AbortController().signal
  const grant = { network: false, outside }
  await tool.run(
    { command: 'true' },
    { tenant: 't', conversationId: 'conv_x', signal, grant, show() {}, async confirm() {} },
  )
  return performance.now() - started
}

const inside: number[] = []
const outside: number[] = []
for (let round = 0; round < ROUNDS; round++) {
  outside.push(await time(true))
  inside.push(await time(false))
}
await remove()
const overhead = median(inside) - median(outside)
say(`inside ${milliseconds(median(inside))}, outside ${milliseconds(median(outside))}`)

report([
  {
    figure: 'a command in the sandbox, p50; peer: outside the sandbox',
    ours: milliseconds(median(inside)),
    peer: milliseconds(median(outside)),
    ratio: times(median(inside) / median(outside)),
    wanted: 'at most 20 ms more',
    met: overhead <= 20,
  },
])
