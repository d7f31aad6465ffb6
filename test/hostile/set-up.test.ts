import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')

interface Lock {
  packages: Record<string, { version?: string; integrity?: string; link?: boolean }>
}

describe('setup', () => {
  it('[T12] installs nothing without a pinned version and integrity', () => {
    for (const path of ['package-lock.json', 'scripts/node/package-lock.json']) {
      const { packages } = JSON.parse(read(path)) as Lock
      const loose = Object.entries(packages).filter(
        ([name, one]) => name !== '' && !one.link && !(one.version && one.integrity),
      )
      expect(loose.map(([name]) => name)).toEqual([])
    }
    const given = JSON.parse(read('scripts/node/package.json')) as {
      optionalDependencies: Record<string, string>
    }
    for (const version of Object.values(given.optionalDependencies))
      expect(version).toMatch(/^\d+\.\d+\.\d+$/)
    const script = read('scripts/setup.mjs')
    expect(script).not.toMatch(/node@|install[^\n]*@\d/)
    expect(
      [...script.matchAll(/\['(install|ci)'[^\]]*\]/g)].map(([call]) => call.includes('--ignore-scripts')),
    ).toEqual([true, true])
  })

  it('[T12] rejects a Node that does not match the pinned integrity', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'waymark-node-'))
    cpSync(join(root, 'scripts/node/package.json'), join(folder, 'package.json'))
    const lock = read('scripts/node/package-lock.json')
    writeFileSync(
      join(folder, 'package-lock.json'),
      lock.replaceAll(/sha512-[A-Za-z0-9+/]{20}/g, `sha512-${'A'.repeat(20)}`),
    )
    // npm skips an optional package that it can't verify; the setup then reports that it could not be added.
    await promisify(execFile)('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder })
    expect(existsSync(join(folder, 'node_modules', `node-linux-${process.arch}`))).toBe(false)
    rmSync(folder, { recursive: true, force: true })
  })
})
