import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { launchBrowser } from '../support/browser.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))

it.skipIf(process.platform !== 'linux')(
  'serve --open opens a signed-in page through a file that only the user can read',
  async () => {
    const project = mkdtempSync(join(tmpdir(), 'waymark-open-'))
    const given = join(project, 'given')
    // A fake xdg-open that records the address.
    writeFileSync(
      join(project, 'xdg-open'),
      `#!/bin/sh\nprintf %s "$*" > "${given}.part" && mv "${given}.part" "${given}"\n`,
    )
    chmodSync(join(project, 'xdg-open'), 0o755)
    const env = {
      ...process.env,
      XDG_STATE_HOME: join(project, 'state'),
      PATH: `${project}:${process.env.PATH}`,
    }
    const server = spawn(process.execPath, [cli, 'serve', '--open', '--port', '0', '--project', project], {
      env,
    })
    const browser = await launchBrowser()
    try {
      await expect.poll(() => existsSync(given)).toBe(true)
      const address = readFileSync(given, 'utf8')
      expect(address).toMatch(/^file:\/\/.*\/open\.html$/)
      expect(statSync(fileURLToPath(address)).mode & 0o777).toBe(0o600)
      const page = await browser.browser.newPage()
      await page.goto(address)
      await page.getByRole('heading', { name: 'What should the agent do?' }).waitFor()
      expect(new URL(page.url()).pathname).toBe('/')
    } finally {
      await browser.close()
      server.kill('SIGKILL')
      rmSync(project, { recursive: true, force: true })
    }
  },
)
