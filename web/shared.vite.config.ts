import { createHash } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig, type Plugin } from 'vite'

/** Builds dist/web/shared.html: the template of a shared conversation, one file with its script and style inside. */
export default defineConfig({
  build: {
    outDir: '../dist/web',
    emptyOutDir: false,
    target: 'es2023',
    cssCodeSplit: false,
    // One file is the point.
    chunkSizeWarningLimit: 2000,
    modulePreload: false,
    reportCompressedSize: false,
    rolldownOptions: {
      input: 'web/shared.html',
      output: { codeSplitting: false },
      onLog(level, log, report) {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') report(level, log)
      },
    },
  },
  plugins: [inOneFile()],
})

/** Moves script and style into the page, under a content policy that allows nothing else. */
function inOneFile(): Plugin {
  return {
    name: 'in-one-file',
    writeBundle({ dir = '' }, bundle) {
      const names = Object.keys(bundle)
      const place = (ending: string) => join(dir, names.find((name) => name.endsWith(ending)) ?? '')
      const [script, style, page] = [place('.js'), place('.css'), place('.html')]
      // A closing tag in a string would end the element.
      const code = readFileSync(script, 'utf8')
        .replaceAll('</script', '<\\/script')
        .replaceAll('<!--', '<\\!--')
      const css = readFileSync(style, 'utf8')
      const policy = `default-src 'none'; script-src '${hashOf(code)}'; style-src '${hashOf(css)}'; img-src data:; base-uri 'none'; form-action 'none'`
      const html = readFileSync(page, 'utf8')
        .replace(/<script type="module"[^>]*><\/script>\s*/, '')
        .replace(/<link rel="stylesheet"[^>]*>\s*/, '')
        .replace(
          '<title>',
          () => `<meta http-equiv="Content-Security-Policy" content="${policy}" />\n    <title>`,
        )
        .replace('</head>', () => `<style>${css}</style>\n  </head>`)
        .replace('</body>', () => `<script type="module">${code}</script>\n  </body>`)
      writeFileSync(page, html)
      for (const file of [script, style]) rmSync(file)
    },
  }
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`
}
