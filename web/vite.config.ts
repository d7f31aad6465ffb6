import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { constants, gzipSync } from 'node:zlib'
import { defineConfig, type Plugin } from 'vite'

export default defineConfig({
  build: {
    outDir: '../dist/web',
    emptyOutDir: true,
    target: 'es2023',
    // Everything is a file of its own: the content policy allows nothing inside the page.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      // A word for servers that render React; here there is none.
      onLog(level, log, report) {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') report(level, log)
      },
    },
  },
  plugins: [compressed()],
})

/** Leaves each file compressed beside itself, so that the server need not do it for every reader. */
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
