import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { constants, gzipSync } from 'node:zlib'
import { defineConfig, type Plugin } from 'vite'

export default defineConfig({
  build: {
    outDir: '../dist/web',
    emptyOutDir: true,
    target: 'es2023',
    // No inlined assets: the content security policy forbids them.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      // Ignore "use client" directives, which matter only for server rendering.
      onLog(level, log, report) {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') report(level, log)
      },
    },
  },
  plugins: [compressed()],
})

/** Writes a gzipped copy of each file, so that the server doesn't compress it for every request. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    writeBundle({ dir = '' }, bundle) {
      for (const name of Object.keys(bundle)) {
        const path = join(dir, name)
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: constants.Z_BEST_COMPRESSION }))
      }
    },
  }
}
