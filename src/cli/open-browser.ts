import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const FORGOTTEN_MS = 15_000

/**
 * Opens the sign-in link in a browser. The link is passed in a file that only this user can read, because every user of
 * the machine can read command lines. Returns false when no program could open it.
 */
export async function openBrowser(link: string, folder: string): Promise<boolean> {
  const file = join(folder, 'open.html')
  const address = link.replaceAll('&', '&amp;').replaceAll('"', '&quot;')
  writeFileSync(file, `<!doctype html><meta http-equiv="refresh" content="0; url=${address}">\n`, {
    mode: 0o600,
  })
  setTimeout(() => rmSync(file, { force: true }), FORGOTTEN_MS).unref()
  process.once('exit', () => rmSync(file, { force: true }))
  const [program = '', ...args] = opener()
  const child = spawn(program, [...args, pathToFileURL(file).href], { stdio: 'ignore', detached: true })
  child.unref()
  return await new Promise((resolve) => {
    child.once('spawn', () => resolve(true))
    child.once('error', () => resolve(false))
  })
}

function opener(): string[] {
  if (process.platform === 'darwin') return ['open']
  return process.platform === 'win32' ? ['cmd', '/c', 'start', ''] : ['xdg-open']
}
