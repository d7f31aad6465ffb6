import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { commandEnv } from '../support/state.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
const tutorial = readFileSync(new URL('../../docs/tutorial.md', import.meta.url), 'utf8')

describe('docs/tutorial.md', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'waymark-tutorial-'))
    mkdirSync(join(folder, 'bin'))
    const shim = `#!/bin/sh\nexec '${process.execPath}' '${cli}' "$@"\n`
    writeFileSync(join(folder, 'bin/waymark'), shim, { mode: 0o755 })
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))

  it('works when its commands are run in their order', { timeout: 180_000 }, async () => {
    const blocks = [...tutorial.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block)
    expect(blocks.length).toBeGreaterThan(8)
    // Stops the server when a command fails.
    const script = `trap 'kill "\${SERVER:-}" 2> /dev/null || true' EXIT\n${blocks.join('\n')}`
    // In a shell below npm, INIT_CWD names the folder where npm was called.
    const env = { ...commandEnv(folder), INIT_CWD: process.cwd() }
    const child = spawn('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: folder,
      env: { ...env, HOME: folder, PATH: `${join(folder, 'bin')}${delimiter}${process.env.PATH}` },
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (bytes: Buffer) => {
        output += bytes.toString()
      })
    const [code] = await once(child, 'close')
    expect(code, output).toBe(0)
    expect(readFileSync(join(folder, 'shop/stock.txt'), 'utf8')).toBe('apples 3\npears 5\nplums 7\n')
    expect(output).toContain('They diverge after event')
    expect(output.trim().split('\n').at(-1)).toBe('No changes.')
  })
})
