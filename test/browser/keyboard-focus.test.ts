import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { loseAnswer, say, untilIdle, withBrowser } from '../support/browser.ts'

describe('keyboard focus and drafts', () => {
  const { server, start, open, forgive } = withBrowser()
  const field = (page: Page) => page.getByRole('textbox', { name: 'Message' })
  const typed = (page: Page, text: string) =>
    page.waitForFunction(
      (wanted) => document.querySelector<HTMLTextAreaElement>('.composer textarea')?.value === wanted,
      text,
    )

  it('[P8] returns focus to the composer after any button press', async () => {
    const { page } = await start('Focus')
    await say(page, '!wait 50\n!say 2000')
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.keyboard.type('no, ')
    await typed(page, 'no, ')
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('a') })
    await page.getByRole('button', { name: 'Remove a.txt' }).click()
    await page.keyboard.type('now ')
    await typed(page, 'no, now ')
    await page.getByText('Stopped.').waitFor()
    await server().client.createConversation({ title: 'Another' })
    await page.getByRole('navigation', { name: 'Conversations' }).getByText('Another').click()
    await page.getByRole('heading', { level: 1, name: 'Another' }).waitFor()
    await page.keyboard.type('now too')
    await typed(page, 'now too')
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'a.bin', mimeType: 'text/plain', buffer: Buffer.of(0) })
    await page
      .locator('.toast', { hasText: 'a.bin is neither text nor an image' })
      .getByRole('button', { name: 'Close' })
      .click()
    await page.keyboard.type('!')
    await typed(page, 'now too!')
  })

  it('[P3] keeps a draft when an example on the start page is chosen', async () => {
    const page = await open('/')
    await field(page).fill('half a thought')
    await page.locator('.demo-hints button').first().click()
    await typed(page, 'half a thought')
    await field(page).fill('')
    await page.locator('.demo-hints button').first().click()
    await expect.poll(async () => (await field(page).inputValue()).length).toBeGreaterThan(5)
  })

  it('[P3] keeps an edited message when its dialog is closed, and across a reload', async () => {
    const { page } = await start('Wording')
    await say(page, 'as it was')
    await untilIdle(page)
    const edit = async () => {
      await page.getByRole('button', { name: 'Edit and fork' }).click()
      return page.getByRole('dialog').getByRole('textbox', { name: 'Message' })
    }
    await (await edit()).fill('as it should be')
    await page.keyboard.press('Escape')
    expect(await (await edit()).inputValue()).toBe('as it should be')
    await page.keyboard.press('Escape')
    await page.reload()
    await page.locator('.said', { hasText: 'as it was' }).waitFor()
    // When the response is lost and the text is edited before retrying, only one fork is created.
    await loseAnswer(page, '**/fork')
    const before = (await server().client.listConversations({ limit: 200 })).items.length
    const wording = await edit()
    expect(await wording.inputValue()).toBe('as it should be')
    await page.getByRole('dialog').getByRole('button', { name: 'Fork and send' }).click()
    await page.getByRole('dialog').getByText('The server is not responding.').waitFor()
    await wording.fill('as it should really be')
    await page.getByRole('dialog').getByRole('button', { name: 'Fork and send' }).click()
    await page.locator('.said', { hasText: 'as it should really be' }).waitFor()
    expect((await server().client.listConversations({ limit: 200 })).items.length).toBe(before + 1)
    forgive(/ERR_FAILED/)
  })

  it('[P3] keeps later messages from overtaking a rejected one', async () => {
    const { id, page } = await start('Order')
    const asked = Promise.withResolvers<void>()
    let isRefusing = true
    await page.route('**/messages', async (route) => {
      if (route.request().method() !== 'POST' || !isRefusing) return await route.continue()
      await asked.promise
      await route.fulfill({
        status: 429,
        contentType: 'application/problem+json',
        body: '{"code":"queue_full"}',
      })
    })
    for (const content of ['first', 'second']) {
      await field(page).fill(content)
      await field(page).press('Enter')
      await typed(page, '')
    }
    asked.resolve()
    await page.locator('.toast', { hasText: 'Ten messages are already queued.' }).waitFor()
    isRefusing = false
    await field(page).fill('third')
    await field(page).press('Enter')
    const said = async () =>
      (await server().client.messages(id)).items.flatMap((one) => (one.role === 'user' ? one.content : []))
    await expect.poll(said).toEqual(['first', 'second', 'third'])
    forgive(/429/)
  })

  it('[P3] pastes spreadsheet cells as text', async () => {
    const { page } = await start('Paste')
    await field(page).focus()
    const isTaken = await field(page).evaluate((element) => {
      const transfer = new DataTransfer()
      transfer.setData('text/plain', 'a\tb')
      transfer.items.add(new File([new Uint8Array([137, 80])], 'image.png', { type: 'image/png' }))
      return !element.dispatchEvent(
        new ClipboardEvent('paste', { clipboardData: transfer, cancelable: true, bubbles: true }),
      )
    })
    expect(isTaken).toBe(false)
    expect(await page.locator('.toast').count()).toBe(0)
  })
})
