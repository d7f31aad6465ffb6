import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Context, Hono } from 'hono'
import type { AppEnv } from './app-dependencies.ts'

/** The page's files as the build left them: few and small, so they are read once and kept. */
export interface WebFiles {
  index: WebFile
  /** By path. */
  files: ReadonlyMap<string, WebFile>
  /** The page's style sheet, for what is not a part of it. */
  styleSheet: string | null
}

export interface WebFile {
  type: string
  bytes: Uint8Array<ArrayBuffer>
  /** The same, compressed by the build. */
  gzip: Uint8Array<ArrayBuffer> | null
  /** Its name changes with its content. */
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

/** Null when it has not been built. */
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

/** The page answers wherever it may be told to go: it reads the address itself. */
export function addWebFiles(app: Hono<AppEnv>, { index, files }: WebFiles): void {
  for (const path of ['/', '/c/:id', '/c/:id/:view']) app.get(path, (c) => answer(c, index))
  for (const [path, file] of files) app.get(path, (c) => answer(c, file))
}

function answer(c: Context<AppEnv>, file: WebFile) {
  const takesGzip = /\bgzip\b/.test(c.req.header('accept-encoding') ?? '')
  c.header('Content-Type', file.type)
  c.header('Vary', 'Accept-Encoding')
  c.header('Cache-Control', file.isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache')
  if (!file.gzip || !takesGzip) return c.body(file.bytes)
  c.header('Content-Encoding', 'gzip')
  return c.body(file.gzip)
}
