// Builds out/site/ from the Markdown documents: plain HTML that any static host can serve. `npm run site`.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Marked } from 'marked'

const root = fileURLToPath(new URL('..', import.meta.url))

const chapters: readonly { name: string; pages: readonly string[] }[] = [
  { name: 'Start', pages: ['README.md', 'docs/tutorial.md', 'docs/guide.md'] },
  {
    name: 'Guides',
    pages: ['your-model', 'your-agent', 'editors', 'typescript-client', 'postgres-and-s3', 'security'].map(
      (name) => `docs/guides/${name}.md`,
    ),
  },
  {
    name: 'Reference',
    pages: [
      'docs/cli.md',
      'docs/settings.md',
      'docs/agents.md',
      'docs/security.md',
      'packages/client/README.md',
    ],
  },
  {
    name: 'Specification',
    pages: ['ledger', 'lines', 'runs', 'context', 'gateway', 'workspace', 'frames', 'http', 'page'].map(
      (name) => `docs/spec/${name}.md`,
    ),
  },
  {
    name: 'Project',
    pages: [
      'ARCHITECTURE.md',
      'GLOSSARY.md',
      'CONTRIBUTING.md',
      'docs/decisions.md',
      'docs/bench.md',
      'docs/compatibility.md',
      'docs/releasing.md',
      'CHANGELOG.md',
    ],
  },
]

/** Returns the paths of the pages, from the folder of the site. */
export function buildSite(out: string): string[] {
  rmSync(out, { recursive: true, force: true })
  const pages = chapters.flatMap((chapter) => chapter.pages)
  const missing = markdownIn('docs').filter((path) => !pages.includes(path))
  if (missing.length > 0) throw new Error(`not part of the site: ${missing.join(', ')}`)
  for (const path of pages) {
    const target = join(out, placeOf(path))
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, pageOf(path))
  }
  cpSync(join(root, 'docs/images'), join(out, 'docs/images'), { recursive: true })
  cpSync(join(root, 'LICENSE'), join(out, 'LICENSE'))
  writeFileSync(join(out, 'style.css'), style)
  return pages.map(placeOf)
}

function markdownIn(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`)
}

function placeOf(path: string): string {
  return path === 'README.md' ? 'index.html' : path.replace(/\.md$/, '.html')
}

function titleOf(path: string): string {
  return /^# (.+)$/m.exec(readFileSync(join(root, path), 'utf8'))?.[1]?.replaceAll('`', '') ?? path
}

function pageOf(path: string): string {
  const place = placeOf(path)
  const link = (to: string) => relative(dirname(place), to) || '.'
  const items = (pages: readonly string[]) =>
    pages
      .map((page) => {
        const current = page === path ? ' aria-current="page"' : ''
        return `<li><a href="${link(placeOf(page))}"${current}>${escaped(titleOf(page))}</a></li>`
      })
      .join('')
  const nav = chapters.map(({ name, pages }) => `<h2>${name}</h2><ul>${items(pages)}</ul>`).join('')
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(titleOf(path))} · Waymark</title>
<link rel="stylesheet" href="${link('style.css')}">
</head>
<body>
<nav aria-label="Documents">${nav}</nav>
<main>
${htmlOf(path)}
</main>
</body>
</html>
`
}

function htmlOf(path: string): string {
  const used = new Map<string, number>()
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, raw }) {
        const words = raw.replace(/^#+\s*/, '').trim()
        const name = anchorOf(words)
        const count = used.get(name) ?? 0
        used.set(name, count + 1)
        const id = count === 0 ? name : `${name}-${count}`
        return `<h${depth} id="${id}">${this.parser.parseInline(tokens)}</h${depth}>\n`
      },
      table(token) {
        const row = (cells: typeof token.header, tag: string) =>
          `<tr>${cells.map((cell) => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join('')}</tr>`
        const body = token.rows.map((cells) => row(cells, 'td')).join('\n')
        return `<div class="table"><table><thead>${row(token.header, 'th')}</thead><tbody>${body}</tbody></table></div>\n`
      },
    },
    walkTokens(token) {
      if (token.type === 'link') token.href = linkFrom(path, token.href)
    },
  })
  return marked.parse(readFileSync(join(root, path), 'utf8'), { async: false })
}

/** As GitHub names headings. */
export function anchorOf(words: string): string {
  return words
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-')
}

function linkFrom(path: string, href: string): string {
  if (/^[a-z]+:|^#/.test(href)) return href
  const [file = '', anchor] = href.split('#')
  const target = join(dirname(path), file)
  const to = relative(dirname(placeOf(path)), placeOf(target)) || '.'
  return anchor === undefined ? to : `${to}#${anchor}`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}

const style = `:root { color-scheme: light dark; font: 16px/1.6 system-ui, sans-serif; --line: light-dark(#dfdfd8, #2c3238); --main: light-dark(#0f766e, #2dd4bf); --sunk: light-dark(#f4f4f0, #171b1f) }
body { display: grid; grid-template-columns: 260px minmax(0, 1fr); margin: 0; background: light-dark(#fbfbf9, #14171a); color: light-dark(#1d2023, #e4e7ea) }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; box-sizing: border-box; padding: 20px; border-right: 1px solid var(--line); font-size: 0.9rem }
nav h2 { margin: 16px 0 4px; font-size: 0.8rem; opacity: 0.7 }
nav ul { margin: 0; padding: 0; list-style: none }
nav a { display: block; padding: 2px 0; color: inherit; text-decoration: none }
nav a[aria-current] { color: var(--main); font-weight: 600 }
main { max-width: 820px; padding: 24px 40px 80px; overflow-wrap: anywhere }
a { color: var(--main) }
img { max-width: 100% }
pre, :not(pre) > code { background: var(--sunk); border-radius: 6px }
pre { padding: 12px 16px; overflow-x: auto }
code { font: 0.87em ui-monospace, Menlo, Consolas, monospace }
:not(pre) > code { padding: 1px 4px }
.table { overflow-x: auto }
table { border-collapse: collapse; font-size: 0.92rem }
th, td { padding: 4px 10px; border: 1px solid var(--line); text-align: left; vertical-align: top }
@media (max-width: 800px) { body { display: block } nav { position: static; height: auto; border: 0; border-bottom: 1px solid var(--line) } main { padding: 20px } }
`

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const pages = buildSite(join(root, 'out/site'))
  console.log(`out/site/: ${pages.length} pages`)
}
