import { afterEach, describe, expect, it } from 'vitest'
import {
  focused,
  launchBrowser,
  loseAnswer,
  say,
  type TestBrowser,
  untilIdle,
  withBrowser,
} from '../support/browser.ts'

describe('unsent text in a browser', () => {
  const { server, start, open, forgive } = withBrowser()
  let other: TestBrowser | null = null
  afterEach(async () => {
    await other?.close()
    other = null
  })

  it('[P3] keeps text typed while a message is being sent as the next draft', async () => {
    const { id, page } = await start('Slow')
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    await page.route('**/messages', async (route) => {
      if (route.request().method() === 'POST') await held
      await route.continue()
    })
    const field = page.getByRole('textbox', { name: 'Message' })
    await field.fill('first')
    await field.press('Enter')
    await expect.poll(() => field.inputValue()).toBe('')
    await field.pressSequentially('second, still being written')
    // Switching views affects neither the message in flight nor the draft.
    await page.getByRole('link', { name: 'Changes', exact: true }).click()
    await page.getByRole('link', { name: 'Transcript', exact: true }).click()
    expect(await field.inputValue()).toBe('second, still being written')
    release()
    await page.locator('.said', { hasText: 'first' }).waitFor()
    await untilIdle(page)
    expect(await field.inputValue()).toBe('second, still being written')
    await field.press('Enter')
    await page.locator('.said', { hasText: 'second' }).waitFor()
    const said = (await server().client.messages(id)).items.filter((one) => one.role === 'user')
    expect(said.map((one) => one.content)).toEqual(['first', 'second, still being written'])
  })

  it('[P3] returns a message to the composer when its response is lost, and resending it creates no duplicate', async () => {
    const { id, page } = await start('Lost answer')
    await loseAnswer(page, '**/messages')
    const field = page.getByRole('textbox', { name: 'Message' })
    await field.fill('once')
    await field.press('Enter')
    await page.locator('.toast', { hasText: 'The server is not responding.' }).waitFor()
    expect(await field.inputValue()).toBe('once')
    // Resending the unchanged text reuses its idempotency key.
    await field.press('Enter')
    await expect.poll(() => field.inputValue()).toBe('')
    await say(page, 'something else')
    await expect
      .poll(async () =>
        (await server().client.messages(id)).items
          .filter((one) => one.role === 'user')
          .map((one) => one.content),
      )
      .toEqual(['once', 'something else'])
    forgive(/ERR_FAILED/)
  })

  it('[P3] keeps attachments while switching views, and a separate draft per tab', async () => {
    const { id, page } = await start('Tabs')
    await page
      .locator('input[type=file]')
      .setInputFiles({ name: 'spec.md', mimeType: 'text/markdown', buffer: Buffer.from('# Spec\n') })
    const along = page.getByRole('list', { name: 'Attachments' })
    await along.getByText('spec.md').waitFor()
    await page.getByRole('link', { name: 'Forks', exact: true }).click()
    await page.getByRole('link', { name: 'Transcript', exact: true }).click()
    await along.getByText('spec.md').waitFor()

    const second = await page.context().newPage()
    await second.goto(`${server().url}/c/${id}`)
    await second.getByRole('textbox', { name: 'Message' }).fill('in the second tab')
    await say(page, 'in the first tab')
    await untilIdle(page)
    await second.reload()
    await expect
      .poll(() => second.getByRole('textbox', { name: 'Message' }).inputValue())
      .toBe('in the second tab')
  })

  it('[P4] confirms before undoing a deletion when messages followed since, and can redo the deletion', async () => {
    const { page } = await start('Since')
    for (const content of ['one', 'two']) {
      await say(page, content)
      await untilIdle(page)
    }
    await page
      .locator('.row.message', { hasText: 'two' })
      .getByRole('button', { name: 'Delete from here' })
      .click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await expect.poll(() => page.locator('.row.message').count()).toBe(1)
    await say(page, 'three, an hour of work')
    await untilIdle(page)
    await page
      .locator('.toast', { hasText: 'You can undo this until' })
      .getByRole('button', { name: 'Undo' })
      .click()
    const asked = page.locator('.toast', { hasText: '1 message sent since.' })
    await asked.waitFor()
    expect(await page.locator('.said').allInnerTexts()).toEqual(['one', 'three, an hour of work'])
    await asked.getByRole('button', { name: 'Undo the deletion anyway' }).click()
    await expect.poll(() => page.locator('.said').allInnerTexts()).toEqual(['one', 'two'])
    await page
      .locator('.toast', { hasText: 'Deleted messages restored' })
      .getByRole('button', { name: 'Redo the deletion' })
      .click()
    await expect.poll(() => page.locator('.said').allInnerTexts()).toEqual(['one', 'three, an hour of work'])
  })

  it('[P2] keeps the rest of the page working when something can’t be rendered or stored', async () => {
    const { id, page } = await start('Odd')
    await say(page, `!say ${JSON.stringify(`${'>'.repeat(6000)} deep`)}`)
    await untilIdle(page)
    await page.locator('.answer', { hasText: 'deep' }).waitFor()
    await page.getByRole('textbox', { name: 'Message' }).fill('x'.repeat(6_000_000))
    await page.getByText('This draft is too long to survive a reload.').waitFor()
    await page.getByRole('textbox', { name: 'Message' }).fill('')
    await page.addInitScript((name) => {
      sessionStorage.setItem(`waymark.draft.${name}`, '{broken')
      sessionStorage.setItem(`waymark.place.${name}`, '{broken')
      localStorage.setItem(`waymark.draft.${name}`, '7')
    }, id)
    await page.reload()
    await page.locator('.answer', { hasText: 'deep' }).waitFor()
    await page.goto(`${server().url}/c/%E0%A4%A`)
    await page.getByText('Can’t show this conversation').waitFor()
    forgive(/40[04]/)
  })

  it('accepts any fork title and runs a double-clicked action once', async () => {
    const { page } = await start('Twice')
    await say(page, 'hello')
    await untilIdle(page)
    const before = (await server().client.listConversations()).items.length
    await page.getByRole('button', { name: 'Fork from here' }).click()
    await page.getByRole('textbox', { name: 'Title' }).fill(`Versuch Ω 日本 ${'lang '.repeat(60)}`)
    await page.getByRole('dialog').getByRole('button', { name: 'Fork', exact: true }).dblclick()
    await page.getByRole('heading', { level: 1, name: 'Versuch Ω' }).waitFor()
    await page.getByRole('button', { name: 'New conversation' }).dblclick()
    await page.getByRole('textbox', { name: 'Message' }).fill('hello again')
    await page.getByRole('button', { name: 'Send' }).dblclick()
    await page.getByRole('heading', { level: 1, name: 'hello again' }).waitFor()
    await untilIdle(page)
    expect((await server().client.listConversations()).items.length).toBe(before + 2)
  })

  it('disables every change with a read-only token, and asks a signed-out browser to sign in', async () => {
    const { id } = await server().client.createConversation({ title: 'Readable' })
    await server().client.sendMessage(id, { content: 'hello' })
    const token = await server().tokenFor('default', ['conversations:read'])
    other = await launchBrowser()
    const { page, problems } = await other.open({ url: server().url, token }, `/c/${id}`)
    await page.getByText('Your token allows reading only.').waitFor()
    await page.locator('.said', { hasText: 'hello' }).waitFor()
    const forbidden = ['Restore files to this point', 'Fork from here', 'Edit and fork', 'Delete from here']
    for (const name of [...forbidden, 'New conversation']) {
      expect(await page.getByRole('button', { name }).isDisabled()).toBe(true)
    }
    for (const name of [/^Rename/, /^Delete “/]) {
      expect(await page.getByRole('button', { name }).count()).toBe(0)
    }
    expect(problems).toEqual([])
    await page.evaluate(() => localStorage.removeItem('waymark_session'))
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  })

  it('[P7] offers no actions in the timeline', async () => {
    const { id, page } = await start('Looking')
    await say(page, '!run_command {"command":"echo hi"}')
    await page.getByRole('button', { name: 'Allow' }).waitFor()
    const { items } = await server().client.events(id, { limit: 1000 })
    const asked = items.find((event) => event.kind === 'tool.approval')?.event_id ?? 0
    await page.goto(`${server().url}/c/${id}/timeline?at=${asked}`)
    const then = page.getByRole('region', { name: 'Transcript at this event' })
    await then.locator('.tool-state.asking').waitFor()
    expect(await then.getByRole('button', { name: 'Allow' }).count()).toBe(0)
    expect(await then.getByRole('button', { name: 'Delete from here' }).count()).toBe(0)
    // Space activates the focused element.
    await page.locator('.timeline .fold').focus()
    const isOpen = await page.locator('.timeline .fold').getAttribute('aria-expanded')
    await page.keyboard.press(' ')
    await expect.poll(() => page.locator('.timeline .fold').getAttribute('aria-expanded')).not.toBe(isOpen)
    await server().client.stop(id)
    // The timeline drops events that have left the line.
    const other = await open(`/c/${id}/timeline?at=${asked}`)
    await other.locator('.timeline .tool-state.asking').waitFor()
    const [message] = (await server().client.messages(id)).items
    await server().client.deleteMessage(id, message?.message_id ?? '')
    await other.locator('.timeline .tool-state.asking').waitFor({ state: 'detached' })
    // The page may request the files of an event that was just removed.
    await other.waitForTimeout(1000)
    forgive(/404/)
  })

  it('[P8] restores focus however a dialog is closed', async () => {
    const { page } = await start('Focus')
    await say(page, 'hello')
    await untilIdle(page)
    for (const close of ['Escape', 'Cancel']) {
      await page.getByRole('button', { name: 'Fork from here' }).focus()
      await page.keyboard.press('Enter')
      await page.getByRole('dialog').waitFor()
      if (close === 'Escape') await page.keyboard.press('Escape')
      else await page.getByRole('button', { name: 'Cancel' }).click()
      await expect.poll(() => page.getByRole('dialog').count()).toBe(0)
      await expect.poll(() => focused(page)).toBe('Fork from here')
    }
  })

  it('[P3] keeps messages whose responses were lost apart from the draft, and sends each once', async () => {
    const { id, page } = await start('Unsure')
    let isLost = true
    const written = Promise.withResolvers<void>()
    await page.route('**/messages', async (route) => {
      if (route.request().method() !== 'POST' || !isLost) return await route.continue()
      // The request arrives, but its response is lost.
      await route.fetch()
      await written.promise
      await route.abort()
    })
    const field = page.getByRole('textbox', { name: 'Message' })
    await field.fill('once')
    await field.press('Enter')
    await field.pressSequentially('second')
    written.resolve()
    await page.locator('.toast', { hasText: 'The server is not responding.' }).waitFor()
    const unsent = page.getByRole('list', { name: 'Messages that may not have been sent' })
    await unsent.getByText('once').waitFor()
    expect(await field.inputValue()).toBe('second')
    // Also across a reload.
    await page.reload()
    await unsent.getByText('once').waitFor()
    await expect.poll(() => field.inputValue()).toBe('second')
    isLost = false
    await field.press('Enter')
    await expect.poll(() => unsent.count()).toBe(0)
    const said = async () =>
      (await server().client.messages(id)).items
        .filter((one) => one.role === 'user')
        .map((one) => one.content)
    await expect.poll(said).toEqual(['once', 'second'])
    forgive(/ERR_FAILED/)
  })

  it('[P3] moves an edited message to the fork’s composer when sending fails', async () => {
    const { page } = await start('Edited')
    await say(page, 'as it was')
    await untilIdle(page)
    let isDown = true
    await page.route('**/messages', async (route) => {
      if (route.request().method() === 'POST' && isDown) await route.abort()
      else await route.continue()
    })
    await page.getByRole('button', { name: 'Edit and fork' }).click()
    await page.getByRole('dialog').getByRole('textbox', { name: 'Message' }).fill('in other words')
    await page.getByRole('dialog').getByRole('button', { name: 'Fork and send' }).click()
    await page.getByRole('heading', { level: 1, name: 'in other words' }).waitFor()
    const field = page.getByRole('textbox', { name: 'Message' })
    await expect.poll(() => field.inputValue()).toBe('in other words')
    isDown = false
    await field.press('Enter')
    await page.locator('.said', { hasText: 'in other words' }).waitFor()
    forgive(/ERR_FAILED/)
  })

  it('[P4] keeps an undo that failed, and offers one undo per deletion', async () => {
    const [one, two] = [
      await server().client.createConversation({ title: 'Same' }),
      await server().client.createConversation({ title: 'Same' }),
    ]
    const page = await open()
    const rows = page
      .getByRole('navigation', { name: 'Conversations' })
      .getByRole('listitem')
      .filter({ hasText: 'Same' })
    await expect.poll(() => rows.count()).toBe(2)
    for (let left = 2; left > 0; left--) {
      await rows.first().hover()
      await rows.first().getByRole('button', { name: 'Delete “Same”' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
      await expect.poll(() => rows.count()).toBe(left - 1)
    }
    const notices = page.locator('.toast', { hasText: '“Same” was deleted.' })
    expect(await notices.count()).toBe(2)
    await page.route('**/undelete', (route) => route.abort(), { times: 1 })
    await notices.first().getByRole('button', { name: 'Undo' }).click()
    await page.locator('.toast', { hasText: 'The server is not responding.' }).waitFor()
    expect(await notices.count()).toBe(2)
    for (let left = 2; left > 0; left--) {
      await notices.first().getByRole('button', { name: 'Undo' }).click()
      await expect.poll(() => notices.count()).toBe(left - 1)
    }
    expect((await server().client.conversation(one.id)).title).toBe('Same')
    expect((await server().client.conversation(two.id)).title).toBe('Same')
    forgive(/ERR_FAILED/)
  })

  it('[P6] keeps following the end when the wheel turns with nothing to scroll', async () => {
    const { page } = await start('Wheel')
    await page.getByRole('region', { name: 'Transcript' }).hover()
    await page.mouse.wheel(0, -300)
    await say(page, `!say ${JSON.stringify(Array.from({ length: 120 }, (_, n) => `- line ${n}`).join('\n'))}`)
    await untilIdle(page)
    const left = () =>
      page
        .getByRole('region', { name: 'Transcript' })
        .evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight)
    await expect.poll(left).toBeLessThan(60)
    // Links stay clickable during scrolling, which is constant while an answer grows.
    const isReached = await page.evaluate(async () => {
      const list = document.querySelector('.transcript')
      if (list) list.scrollTop -= 5
      for (let frames = 0; frames < 3; frames++) await new Promise(requestAnimationFrame)
      const link = [...document.querySelectorAll('.run-end a')].at(-1)
      const { x, y, width, height } = link?.getBoundingClientRect() ?? new DOMRect()
      return link?.contains(document.elementFromPoint(x + width / 2, y + height / 2))
    })
    expect(isReached).toBe(true)
  })
})
