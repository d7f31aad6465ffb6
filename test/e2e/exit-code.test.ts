import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

it.each([
  ['fails', 'expect(1).toBe(2)', 1],
  ['passes', 'expect(1).toBe(1)', 0],
])('vitest exits with the right code when a test %s', { timeout: 120_000 }, async (_, body, wanted) => {
  // Inside the project, so that imports resolve.
  const folder = mkdtempSync(join(root, 'node_modules', '.exit-code-'))
  try {
    writeFileSync(
      join(folder, 'one.test.ts'),
      `import { expect, it } from 'vitest'\nit('one', () => ${body})\n`,
    )
    const setup = JSON.stringify(join(root, 'test/support/postgres-server.ts'))
    const config = `export default { test: { include: ['one.test.ts'], globalSetup: [${setup}] } }\n`
    writeFileSync(join(folder, 'vitest.config.mjs'), config)
    const vitest = join(root, 'node_modules/vitest/vitest.mjs')
    const run = spawn(process.execPath, [vitest, 'run', '--root', folder], { stdio: 'ignore', cwd: folder })
    const [code] = (await once(run, 'exit')) as [number]
    expect(code).toBe(wanted)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
