#!/usr/bin/env node
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// Check the Node version before loading anything else: the database driver crashes on an old Node.
const NEEDED = [22, 14] as const
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

if (major > NEEDED[0] || (major === NEEDED[0] && minor >= NEEDED[1])) {
  if (isServer()) {
    restartWithFlag()
    await import('./small-heap.ts')
  }
  const { runCli } = await import('./run-cli.ts')
  await runCli()
} else {
  // `npm run setup` installs a newer Node in node_modules when needed.
  const added = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url))
  if (existsSync(added)) {
    const { status } = spawnSync(added, process.argv.slice(1), { stdio: 'inherit' })
    process.exitCode = status ?? 1
  } else {
    console.error(`waymark: Node ${NEEDED.join('.')} or later is required; this is ${process.versions.node}`)
    process.exitCode = 1
  }
}

function isServer(): boolean {
  return process.argv[2] === undefined || process.argv[2] === 'serve'
}

/**
 * On Linux with an x64 processor, V8 can lose track of a page of code while threads start and end, and then ends the process
 * ("Check failed: jit_page.has_value()", nodejs/node#64500). This flag prevents it and must be set before V8 starts, so the
 * server replaces its own process. A Node without `execve` continues without it.
 */
function restartWithFlag(): void {
  const flag = '--no-memory-protection-keys'
  const isAffected = process.platform === 'linux' && process.arch === 'x64'
  if (!isAffected || process.execArgv.includes(flag)) return
  const args = [process.execPath, ...process.execArgv, flag, ...process.argv.slice(1)]
  process.execve?.(process.execPath, args, process.env)
}
