#!/usr/bin/env node
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// Nothing else is loaded before this: the database driver crashes on a Node that is too old for it.
const NEEDED = [22, 12] as const
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

if (major > NEEDED[0] || (major === NEEDED[0] && minor >= NEEDED[1])) {
  await import('./small-heap.ts')
  const { runCli } = await import('./run-cli.ts')
  await runCli()
} else {
  // The set-up adds a newer one to node_modules where it is needed.
  const added = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url))
  if (existsSync(added)) {
    const { status } = spawnSync(added, process.argv.slice(1), { stdio: 'inherit' })
    process.exitCode = status ?? 1
  } else {
    console.error(`waymark: Node ${NEEDED.join('.')} or later is needed; this is ${process.versions.node}`)
    process.exitCode = 1
  }
}
