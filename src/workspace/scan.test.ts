import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createFolderTree } from './folder-tree.ts'
import { createIgnoreRules } from './ignore-rules.ts'
import { createScan } from './scan.ts'
import { noTrackedFiles } from './tracked-files.ts'

it('reads only changed files, and files that changed just before the last read', async () => {
  const root = mkdtempSync(join(tmpdir(), 'waymark-scan-'))
  for (let i = 0; i < 20; i++) writeFileSync(join(root, `f${i}`), `file ${i}`)
  const read: string[] = []
  const tree = createFolderTree({ umask: 0o022 })
  const scan = createScan({
    root,
    own: null,
    tree,
    rules: createIgnoreRules({ include: [], exclude: [] }),
    objects: { put: (_, body) => `${read.push(Buffer.from(body).toString())}` },
    maxFileBytes: 1000,
    isToolWritten: () => false,
    toolWritten: () => [],
    tracked: noTrackedFiles,
  })
  const look = () => {
    read.length = 0
    scan.full()
    return read.length
  }
  expect(look()).toBe(20)
  // The files are so new that another change might not alter their times.
  expect(look()).toBe(20)
  await new Promise((resolve) => setTimeout(resolve, 2100))
  expect(look()).toBe(20)
  expect(look()).toBe(0)
  writeFileSync(join(root, 'f7'), 'changed')
  expect(look()).toBe(1)
  expect(read).toEqual(['changed'])
  rmSync(root, { recursive: true })
})
