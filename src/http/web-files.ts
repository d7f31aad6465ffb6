import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The built files of the page. They are few and small, so they are read once and kept in memory. */
export interface WebFiles {
  index: WebFile
  /** By path. */
  files: ReadonlyMap<string, WebFile>
  /** The page's style sheet, for the sign-in pages. */
  styleSheet: string | null
}

export interface WebFile {
  type: string
  bytes: Uint8Array<ArrayBuffer>
  /** Compressed by the build. */
  gzip: Uint8Array<ArrayBuffer> | null
  /** The file name contains a content hash. */
  isImmutable: boolean
}

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  json: 'application/json',
  webmanifest: 'application/manifest+json',
}

/** Null when the page has not been built. */
export function readWebFiles(folder: string): WebFiles | null {
  if (!existsSync(join(folder, 'index.html'))) return null
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.gz'))
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length).replace(/^\/+/, ''))
  const files = new Map(names.map((name) => [`/${name}`, readWebFile(folder, name)]))
  const index = files.get('/index.html')
  if (!index) return null
  files.delete('/index.html')
  const styleSheet = [...files.keys()].find((name) => /^\/assets\/index[^/]*\.css$/.test(name)) ?? null
  return { index, files, styleSheet }
}

function readWebFile(folder: string, name: string): WebFile {
  const path = join(folder, name)
  const extension = name.slice(name.lastIndexOf('.') + 1)
  return {
    type: types[extension] ?? 'application/octet-stream',
    bytes: new Uint8Array(readFileSync(path)),
    gzip: existsSync(`${path}.gz`) ? new Uint8Array(readFileSync(`${path}.gz`)) : null,
    isImmutable: name.startsWith('assets/'),
  }
}
