// Preloaded into test processes: worker threads load the bundle that `bundle-threads.ts` made of their module, as the
// built package does. Loading some two hundred source files takes each thread half a second.
import { existsSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { isMainThread } from 'node:worker_threads'

const sources = new URL('../../src/', import.meta.url).href
const bundles = new URL('../../node_modules/.cache/waymark-threads/', import.meta.url)

if (!isMainThread) {
  registerHooks({
    resolve(specifier, context, next) {
      const resolved = next(specifier, context)
      if (!resolved.url.startsWith(sources)) return resolved
      const bundle = new URL(bundleName(resolved.url.slice(sources.length)), bundles)
      return existsSync(bundle) ? { ...resolved, url: bundle.href, format: 'module' } : resolved
    },
  })
}

/** @param {string} module its path below `src` */
export function bundleName(module) {
  return `${module.replace(/\.ts$/, '').replaceAll('/', '-')}.mjs`
}
