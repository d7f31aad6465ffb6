import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import type { ConversationId } from '../../src/protocol/ids.ts'
import { say, untilIdle, withBrowser } from '../support/browser.ts'
import { fillConversation } from '../support/long-conversation.ts'

const MESSAGES = 5000
/** The size of the events that the page reads before it shows the end, as JSON. */
const MOST_FIRST_BYTES = 400_000

describe(`a conversation of ${MESSAGES} messages`, () => {
  const { server, open } = withBrowser()
  let id: ConversationId
  beforeAll(async () => {
    id = (await server().client.createConversation({ title: 'Long' })).id as ConversationId
    await fillConversation(server().ledger, id, MESSAGES)
  }, 120_000)

  const path = () => `/c/${id}`
  const last = (page: Page) => page.getByText(`Answer ${MESSAGES / 2}:`).first()

  it('[P6] is usable before any earlier events arrive', async () => {
    const page = await open('/')
    let held = 0
    let firstBytes = 0
    // Only the newest page of events reaches the browser; the rest is held until the page closes.
    await page.route(/\/ledger\/events\?/, async (route) => {
      const before = Number(new URL(route.request().url()).searchParams.get('before'))
      if (before !== Number.MAX_SAFE_INTEGER) return void held++
      const response = await route.fetch()
      firstBytes += (await response.body()).length
      await route.fulfill({ response })
    })
    await page.goto(server().url + path())
    await last(page).waitFor()
    await page.getByRole('textbox', { name: 'Message' }).fill('x')
    expect(firstBytes).toBeLessThan(MOST_FIRST_BYTES)
    // Only visible rows are rendered.
    expect(await page.locator('[data-row]').count()).toBeLessThan(100)
    await expect.poll(() => held).toBeGreaterThan(0)
  })

  it('[P6] keeps the view in place while earlier events load, and after a reload', async () => {
    const page = await open(path())
    await last(page).waitFor()
    await page.getByRole('region', { name: 'Transcript' }).hover()
    for (let i = 0; i < 10; i++) await page.mouse.wheel(0, -400)
    await page.waitForTimeout(300)
    const before = await rowInSight(page)
    // Several times the initial events load in the background.
    await page.waitForTimeout(1500)
    const after = await topOf(page, before.key)
    expect(Math.abs(after - before.top)).toBeLessThan(3)

    await page.reload()
    await expect.poll(async () => Math.abs((await topOf(page, before.key)) - before.top)).toBeLessThan(3)
  })

  async function rowInSight(page: Page): Promise<{ key: string; top: number }> {
    return await page.evaluate(() => {
      const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')]
      const row = rows.find((one) => one.getBoundingClientRect().top > 200)
      return { key: row?.dataset.row ?? '', top: row?.getBoundingClientRect().top ?? Number.NaN }
    })
  }

  async function topOf(page: Page, key: string): Promise<number> {
    return await page.evaluate((wanted) => {
      const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')]
      return rows.find((one) => one.dataset.row === wanted)?.getBoundingClientRect().top ?? Number.NaN
    }, key)
  }

  it('[P6] follows new messages at the end and can jump to the beginning', async () => {
    const page = await open(path())
    await last(page).waitFor()
    await say(page, 'And now?')
    await untilIdle(page)
    await page.locator('.said', { hasText: 'And now?' }).waitFor()
    await page.getByRole('region', { name: 'Transcript' }).focus()
    await page.keyboard.press('g')
    await page.getByText('Question 1:').waitFor({ timeout: 60_000 })
    await page.keyboard.press('Shift+G')
    await page.locator('.said', { hasText: 'And now?' }).waitFor()
  }, 90_000)
})
