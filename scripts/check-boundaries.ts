// Fails when a source file breaks a rule of ARCHITECTURE.md's table of folders. Run by `npm run check`.
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findViolations } from './boundaries.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const sources = new Map(
  ['src', 'web'].flatMap((folder) => sourceFiles(join(root, folder))).map((file) => [file, textOf(file)]),
)
const violations = findViolations(sources)
if (violations.length > 0) {
  console.error(violations.join('\n'))
  process.exit(1)
}
console.log(`boundaries: ${sources.size} files, no violation`)

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !/\.(config|d)\.ts$/.test(entry.name))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((path) => !/\.(test|contract)\.ts$/.test(path))
}

function textOf(file: string): string {
  return readFileSync(join(root, file), 'utf8')
}
