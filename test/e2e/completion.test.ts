import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'

const waymark = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
const print = (shell: string) =>
  execFileSync(process.execPath, ['--disable-warning=ExperimentalWarning', waymark, 'completion', shell], {
    encoding: 'utf8',
  })
let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'waymark-completion-'))
  writeFileSync(join(folder, 'waymark.bash'), print('bash'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What bash offers for the last of these words. */
function offered(...words: string[]): string[] {
  const script =
    'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _waymark; echo "${COMPREPLY[*]}"'
  const printed = execFileSync('bash', ['-c', script, 'bash', join(folder, 'waymark.bash'), ...words], {
    encoding: 'utf8',
  })
  return printed.trim().split(' ').filter(Boolean)
}

it('completes commands, subcommands and options in bash', () => {
  expect(offered('waymark', 'rest')).toEqual(['restore', 'restore-backup'])
  expect(offered('waymark', 'token', 'cr')).toEqual(['create'])
  expect(offered('waymark', 'fork', 'conv_1', '--fi')).toEqual(['--files'])
  expect(offered('waymark', 'no-such-command', 'x')).toEqual([])
})

it('prints scripts for zsh and fish with every command', () => {
  for (const shell of ['zsh', 'fish']) {
    const script = print(shell)
    for (const word of ['serve', 'restore-backup', 'completion']) expect(script).toContain(word)
  }
})
