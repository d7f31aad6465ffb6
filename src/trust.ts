import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from './config.ts'

const TRUSTED_FILE = 'trusted-settings'

/** Whether the person has said that the settings in the project's file, as it is now, may let the agent do more. */
export async function isTrusted({ untrusted, userDir }: Config): Promise<boolean> {
  if (!untrusted) return true
  return (await trustedLines(userDir)).includes(lineOf(untrusted))
}

/** Kept by path and content, in the person's own folder: nothing that comes with a project can vouch for itself. */
export async function trust({ untrusted, userDir }: Config): Promise<void> {
  if (!untrusted) return
  const lines = await trustedLines(userDir)
  if (lines.includes(lineOf(untrusted))) return
  await mkdir(userDir, { recursive: true, mode: 0o700 })
  const text = [...lines, lineOf(untrusted)].join('\n')
  await writeFile(join(userDir, TRUSTED_FILE), `${text}\n`, { mode: 0o600 })
}

async function trustedLines(userDir: string): Promise<string[]> {
  const text = await readFile(join(userDir, TRUSTED_FILE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  return text.split('\n').filter(Boolean)
}

function lineOf({ file, sha256 }: NonNullable<Config['untrusted']>): string {
  return `${sha256} ${JSON.stringify(file)}`
}
