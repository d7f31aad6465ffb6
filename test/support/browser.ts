import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { findBrowser } from '../../scripts/find-browser.mjs'
import type { Config } from '../../src/config.ts'
import { startTestServer, type TestServer } from './server.ts'

/** A real browser that opens signed-in pages. */
export interface TestBrowser {
  browser: Browser
  /** Opens a page in its own browser context, like another device. */
  open(server: { url: string; token: string }, path?: string, options?: PageOptions): Promise<TestPage>
  close(): Promise<void>
}

export interface TestPage {
  page: Page
  context: BrowserContext
  /** Page errors and console errors, including content policy violations. */
  problems: string[]
}

export interface PageOptions {
  width?: number
  height?: number
  theme?: 'light' | 'dark'
  /** A touch screen, which can't hover. */
  isTouch?: boolean
}

export async function launchBrowser(): Promise<TestBrowser> {
  const executablePath = findBrowser()
  if (executablePath === null) throw new Error('Chrome or Chromium not found: set WAYMARK_CHROME')
  const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  const browser = await chromium.launch({
    executablePath,
    args: [...asRoot, '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  })
  return {
    browser,
    async open(server, path = '/', options = {}) {
      const { width = 1280, height = 860, theme = 'light', isTouch = false } = options
      const context = await browser.newContext({
        viewport: { width, height },
        colorScheme: theme,
        hasTouch: isTouch,
        isMobile: isTouch,
        locale: 'en-GB',
        timezoneId: 'UTC',
      })
      await context.addInitScript(keepSession, { origin: server.url, secret: await signIn(server) })
      const page = await context.newPage()
      const problems: string[] = []
      page.on('pageerror', (error) => problems.push(String(error.stack ?? error)))
      page.on('console', (message) => {
        if (message.type() === 'error') problems.push(message.text())
      })
      page.setDefaultTimeout(15_000)
      await page.goto(server.url + path)
      return { page, context, problems }
    },
    close: () => browser.close(),
  }
}

/** Opens a session for the token and returns its secret. */
async function signIn({ url, token }: { url: string; token: string }) {
  const answer = await fetch(`${url}/login`, { method: 'POST', body: new URLSearchParams({ token }) })
  if (answer.status !== 200) throw new Error(`sign-in failed: ${answer.status}`)
  return /name="waymark-session" content="([^"]+)"/.exec(await answer.text())?.[1] ?? ''
}

function keepSession({ origin, secret }: { origin: string; secret: string }): void {
  if (location.origin === origin) localStorage.setItem('waymark_session', secret)
}

/** Writes a message and sends it. */
export async function say(page: Page, content: string): Promise<void> {
  const field = page.getByRole('textbox', { name: 'Message' })
  await field.fill(content)
  const answered = page.waitForResponse(
    (response) => response.request().method() === 'POST' && response.url().endsWith('/messages'),
  )
  await page.keyboard.press('Enter')
  // The composer is emptied at once; only the response shows that the server has the message.
  await answered
  await expect.poll(() => field.inputValue()).toBe('')
}

/**
 * Presses Allow until the page reacts. Playwright may scroll the button into view while its row is still being measured; the page
 * then scrolls to the end again, and the button moves away from the press.
 */
export async function allowCall(page: Page, press: 'click' | 'tap' = 'click'): Promise<void> {
  const button = page.getByRole('button', { name: 'Allow', exact: true })
  await button.waitFor()
  const isGone = () =>
    button.waitFor({ state: 'detached', timeout: 3000 }).then(
      () => true,
      () => false,
    )
  await expect
    .poll(async () => {
      await button[press]({ timeout: 3000 }).catch(() => {})
      return await isGone()
    })
    .toBe(true)
}

/** Lets the next POST to this path reach the server, but drops its response. */
export async function loseAnswer(page: Page, path: string): Promise<void> {
  let isLost = false
  await page.route(path, async (route) => {
    if (route.request().method() !== 'POST' || isLost) return await route.continue()
    isLost = true
    await route.fetch()
    await route.abort()
  })
}

/** Text of the focused element. */
export async function focused(page: Page): Promise<string | null | undefined> {
  return await page.evaluate(() => document.activeElement?.textContent)
}

/** Text of all rendered transcript rows, without the time that a run has taken so far. */
export async function transcriptText(page: Page): Promise<string> {
  const text = await page.getByRole('region', { name: 'Transcript' }).innerText()
  return text.replaceAll(/(Running …|Waiting for your approval\.)\s*(\d+ min )?\d+ s/g, '$1')
}

/** Waits until nothing is running or queued, and the page shows that. */
export async function untilIdle(page: Page): Promise<void> {
  const isIdle = async () => {
    const [, id = ''] = /^\/c\/([^/]+)/.exec(location.pathname) ?? []
    const headers = { Authorization: `Bearer ${localStorage.getItem('waymark_session')}` }
    const read = async (path: string) =>
      await (await fetch(`/api/v1/conversations/${id}${path}`, { headers })).json()
    const [queue, { head_event_number }] = [await read('/queue'), await read('')]
    const shown = Number(document.querySelector<HTMLElement>('.transcript')?.dataset.head ?? 0)
    return queue.active === null && queue.items.length === 0 && shown >= head_event_number
  }
  await page.waitForFunction(isIdle, null, { polling: 50 })
  await page.locator('.run-end .run-end').last().waitFor()
  await expect.poll(() => page.getByText('Running …').count(), { timeout: 20_000 }).toBe(0)
  await page.getByRole('button', { name: 'Stop', exact: true }).waitFor({ state: 'detached' })
}

/** Logs the contents of a page whose test failed. */
async function tell(page: Page): Promise<void> {
  const shown = await page.locator('body').innerText().catch(String)
  const dialogs = await page.getByRole('dialog').allInnerTexts().catch(String)
  console.error(`${page.url()}\n${shown}\ndialogs: ${JSON.stringify(dialogs)}`)
}

/** Starts one server and one browser per test file. A test fails when one of its pages reports a problem. */
export function withBrowser(config: () => Promise<Partial<Config>> | Partial<Config> = () => ({})) {
  let server: TestServer | undefined
  let browser: TestBrowser | undefined
  let opened: TestPage[] = []
  beforeAll(async () => {
    ;[server, browser] = await Promise.all([startTestServer(await config()), launchBrowser()])
  })
  afterAll(async () => {
    await browser?.close()
    await server?.close()
  })
  afterEach(async ({ task }) => {
    const closing = opened
    opened = []
    for (const { page, context } of closing) {
      if (task.result?.state === 'fail') await tell(page)
      await context.close()
    }
    expect(closing.flatMap(({ problems }) => problems)).toEqual([])
  })

  function here(): TestServer {
    if (!server) throw new Error('the server has not started yet')
    return server
  }

  async function open(path?: string, options?: PageOptions): Promise<Page> {
    if (!browser) throw new Error('the browser has not started yet')
    const one = await browser.open(here(), path, options)
    opened.push(one)
    return one.page
  }

  return {
    server: here,
    open,
    /** Creates a conversation and opens it in a page. */
    async start(title: string, options?: PageOptions): Promise<{ id: string; page: Page }> {
      const { id } = await here().client.createConversation({ title })
      const page = await open(`/c/${id}`, options)
      await page.getByRole('heading', { name: 'Send a message' }).waitFor()
      return { id, page }
    },
    /** Drops the expected problems that pages have reported so far. */
    forgive(expected: RegExp): void {
      for (const { problems } of opened) {
        const others = problems.filter((problem) => !expected.test(problem))
        problems.splice(0, problems.length, ...others)
      }
    },
  }
}
