// Finds Chrome or Chromium for the browser tests and the screenshots. Runs on Node 18 and later.
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const names = [
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
  'chrome',
  'microsoft-edge',
]
const places = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
]

/** @returns {string | null} */
export function findBrowser(env = process.env) {
  if (env.WAYMARK_CHROME) return existsSync(env.WAYMARK_CHROME) ? env.WAYMARK_CHROME : null
  return (
    names.map((name) => programIn(env, name)).find(Boolean) ?? places.find((path) => existsSync(path)) ?? null
  )
}

export function hasProgram(name, env = process.env) {
  return programIn(env, name) !== null
}

function programIn(env, name) {
  const folders = (env.PATH ?? '').split(delimiter).filter(Boolean)
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path)) ?? null
}
