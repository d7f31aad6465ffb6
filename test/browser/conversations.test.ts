import { describe, expect, it } from 'vitest'
import { say, untilIdle, withBrowser } from '../support/browser.ts'

describe('conversation list in a browser', () => {
  const { server, open, start, forgive } = withBrowser()
  const list = (page: Awaited<ReturnType<typeof open>>) =>
    page.getByRole('navigation', { name: 'Conversations' })

  it('finds conversations by title and by message text', async () => {
    const { page } = await start('Gardening')
    await say(page, 'How do I prune a quince?')
    await untilIdle(page)
    await server().client.createConversation({ title: 'Cooking' })
    await list(page).getByText('Cooking').waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.press('/')
    await page.keyboard.type('quince')
    await expect.poll(() => list(page).getByRole('listitem').count()).toBe(1)
    await list(page).getByText('Gardening').waitFor()
    await page.keyboard.press('ControlOrMeta+A')
    await page.keyboard.type('not said here')
    await list(page).getByText('No conversations match “not said here”.').waitFor()
  })

  it('marks conversations with running and queued messages, including those from other clients', async () => {
    const { id } = await server().client.createConversation({ title: 'Elsewhere' })
    const page = await open()
    const row = list(page).getByRole('listitem').filter({ hasText: 'Elsewhere' })
    await row.waitFor()
    await server().client.sendMessage(id, { content: '!wait 50\n!say 2000' })
    await server().client.sendMessage(id, { content: 'then this' })
    await row.getByText('running').waitFor()
    await row.getByText('1 queued').waitFor()
    const { items } = await server().client.queue(id)
    await server().client.removeQueued(id, items[0]?.run_id ?? '')
    await server().client.stop(id)
    await row.getByText('running').waitFor({ state: 'detached' })
  })

  it('renames, deletes and undeletes a conversation', async () => {
    const { page } = await start('Old name')
    const row = list(page).getByRole('listitem').filter({ hasText: 'Old name' })
    await row.hover()
    await row.getByRole('button', { name: 'Rename “Old name”' }).click()
    await page.getByRole('dialog').getByRole('textbox').fill('New name')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'New name' }).waitFor()

    const renamed = list(page).getByRole('listitem').filter({ hasText: 'New name' })
    await renamed.hover()
    await renamed.getByRole('button', { name: 'Delete “New name”' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.locator('.toast', { hasText: '“New name” was deleted.' }).waitFor()
    await expect.poll(() => renamed.count()).toBe(0)
    await page.getByRole('heading', { name: 'Work with an agent' }).waitFor()
    await page.locator('.toast').getByRole('button', { name: 'Undo' }).click()
    await renamed.waitFor()
    await page.getByRole('heading', { level: 1, name: 'New name' }).waitFor()
  })

  it('shows "Conversation not found" for an unknown id and keeps working', async () => {
    const page = await open('/c/conv_00000000000000000000000000')
    await page.getByText('Conversation not found').waitFor()
    await page.getByRole('link', { name: 'Go to conversations' }).click()
    await page.getByRole('heading', { name: 'Work with an agent' }).waitFor()
    forgive(/404/)
  })

  it('focuses the composer in a new conversation and reuses an empty one', async () => {
    const { page } = await start('Before')
    await page.getByRole('button', { name: 'New conversation' }).click()
    await page.getByRole('heading', { level: 1, name: 'Untitled' }).waitFor()
    const first = page.url()
    await page.keyboard.type('now stop, test 123?')
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('now stop, test 123?')
    await page.getByRole('textbox', { name: 'Message' }).fill('')
    await list(page).getByText('Before').click()
    await page.getByRole('heading', { level: 1, name: 'Before' }).waitFor()
    await page.getByRole('button', { name: 'New conversation' }).click()
    await expect.poll(() => page.url()).toBe(first)
  })

  it('shows in the list and the page title that a tool is waiting for approval', async () => {
    const { id } = await server().client.createConversation({ title: 'Asking' })
    await server().client.sendMessage(id, { content: '!run_command {"command":"ls"}' })
    const page = await open()
    const row = list(page).getByRole('listitem').filter({ hasText: 'Asking' })
    await row.getByText('waiting for approval').waitFor()
    await row.getByRole('link').click()
    await page.getByText('Waiting for approval', { exact: true }).waitFor()
    await expect.poll(() => page.title()).toBe('❓ Asking · Waymark')
    await page.getByRole('button', { name: 'Deny' }).click()
    await row.getByText('waiting for approval').waitFor({ state: 'detached' })
  })

  it('restores the scroll position when the transcript is shown again', async () => {
    const { page } = await start('Place')
    for (let i = 0; i < 3; i++) {
      await say(
        page,
        `!say ${JSON.stringify(Array.from({ length: 40 }, (_, n) => `- line ${i} ${n}`).join('\n'))}`,
      )
      await untilIdle(page)
    }
    const transcript = page.getByRole('region', { name: 'Transcript' })
    await transcript.hover()
    await page.mouse.wheel(0, -1500)
    await page.waitForTimeout(400)
    const before = await transcript.evaluate((element) => element.scrollTop)
    await page.getByRole('link', { name: 'Changes', exact: true }).click()
    await page.getByRole('link', { name: 'Transcript', exact: true }).click()
    await expect
      .poll(async () => Math.abs((await transcript.evaluate((element) => element.scrollTop)) - before))
      .toBeLessThan(5)
  })
})
