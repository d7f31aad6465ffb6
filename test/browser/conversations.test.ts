import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { say, untilIdle, withBrowser } from '../support/browser.ts'
import { ask } from '../support/runs.ts'

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
    await list(page).getByText('Gardening').waitFor()
    await list(page).locator('mark', { hasText: 'quince' }).waitFor()
    await expect.poll(() => list(page).getByText('Cooking').count()).toBe(0)
    await page.keyboard.press('ControlOrMeta+A')
    await page.keyboard.type('not said here')
    await list(page).getByText('No conversations match “not said here”.').waitFor()
  })

  it('searches everything from anywhere, by words and filters, with the keyboard alone', async () => {
    const { id, page } = await start('Orchard')
    await ask(
      server(),
      id,
      'plant a medlar\n!write_to_file {"path":"trees/medlar.txt","content":"a medlar\\n"}',
    )
    const other = await server().client.createConversation({ title: 'Kitchen' })
    await ask(server(), other.id, 'cook the medlar')
    await page.getByRole('textbox', { name: /message/i }).click()
    await page.keyboard.press('ControlOrMeta+K')
    const dialog = page.getByRole('dialog', { name: 'Search' })
    const options = dialog.getByRole('listbox', { name: 'Results' }).getByRole('option')
    await options.filter({ hasText: 'Orchard' }).first().waitFor()
    await page.keyboard.type('medlar')
    await options.filter({ hasText: 'cook the medlar' }).filter({ hasText: 'Kitchen' }).first().waitFor()
    await dialog.getByText('Filters').click()
    await dialog.getByLabel('Kind').selectOption('Edits')
    await dialog.getByLabel('File or folder').fill('trees')
    await expect.poll(() => options.count()).toBe(1)
    await dialog.getByLabel('Kind').selectOption('Anything')
    await dialog.getByLabel('File or folder').fill('')
    await dialog.getByLabel('Author').selectOption('People')
    await expect.poll(() => options.count()).toBe(2)
    await dialog.getByLabel('Only this conversation').check()
    await expect.poll(() => options.count()).toBe(1)
    await dialog.getByLabel('Only this conversation').uncheck()
    await expect.poll(() => options.count()).toBe(2)
    await dialog.getByRole('combobox', { name: /Search messages/ }).focus()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Kitchen' }).waitFor()
    await page.locator('.row.found', { hasText: 'cook the medlar' }).waitFor()
    expect(await dialog.count()).toBe(0)
  })

  it('jumps from a found message to its place in a long transcript', async () => {
    const { id, page } = await start('Long')
    await ask(server(), id, 'the one about rhubarb')
    for (let i = 0; i < 25; i++) await ask(server(), id, `filler ${i} ${'line\n'.repeat(20)}`)
    await page.reload()
    await list(page).getByRole('searchbox').fill('rhubarb')
    await list(page)
      .getByRole('link', { name: /rhubarb/ })
      .filter({ hasText: 'You' })
      .click()
    const row = page.locator('.row.found', { hasText: 'the one about rhubarb' })
    await row.waitFor()
    await expect.poll(async () => (await row.boundingBox())?.y ?? -1).toBeGreaterThan(80)
    expect((await row.boundingBox())?.y).toBeLessThan(400)
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
    await page.getByRole('heading', { name: 'What should the agent do?' }).waitFor()
    await page.locator('.toast').getByRole('button', { name: 'Undo' }).click()
    await renamed.waitFor()
    await page.getByRole('heading', { level: 1, name: 'New name' }).waitFor()
  })

  it('shows "Conversation not found" for an unknown id and keeps working', async () => {
    const page = await open('/c/conv_00000000000000000000000000')
    await page.getByText('Conversation not found').waitFor()
    await page.getByRole('link', { name: 'Go to conversations' }).click()
    await page.getByRole('heading', { name: 'What should the agent do?' }).waitFor()
    forgive(/404/)
  })

  it('[P3] keeps what was typed for a new conversation, and creates the conversation when it is sent', async () => {
    const { page } = await start('Before')
    const field = page.getByRole('textbox', { name: 'Message' })
    const count = async () => (await server().client.listConversations()).items.length
    const before = await count()
    await page.getByRole('button', { name: 'New conversation' }).click()
    await page.getByRole('heading', { name: 'What should the agent do?' }).waitFor()
    await page.keyboard.type('now stop, test 123?')
    await list(page).getByText('Before').click()
    await page.getByRole('heading', { level: 1, name: 'Before' }).waitFor()
    await page.goto(server().url)
    await expect.poll(() => field.inputValue()).toBe('now stop, test 123?')
    expect(await count()).toBe(before)
    await page.getByRole('combobox', { name: 'What the agent may do' }).selectOption('read_only')
    await field.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'now stop, test 123?' }).waitFor()
    await untilIdle(page)
    expect(await count()).toBe(before + 1)
    const { items } = await server().client.listConversations({ limit: 1 })
    expect(items[0]).toMatchObject({ title: 'now stop, test 123?', is_titled: false, mode: 'read_only' })
    await page.goto(server().url)
    await page
      .getByRole('region', { name: 'Recent conversations' })
      .getByText('now stop, test 123?')
      .waitFor()
    expect(await field.inputValue()).toBe('')
  })

  it('mentions files in the message of a new conversation', async () => {
    writeFileSync(join(server().config.project, 'mentioned-here.txt'), 'text')
    const page = await open()
    await page.getByRole('textbox', { name: 'Message' }).fill('read @mentioned-h')
    await page.getByRole('option', { name: 'mentioned-here.txt' }).waitFor()
    await page.keyboard.press('Enter')
    await page.keyboard.press('Enter')
    await page.locator('.said', { hasText: 'mentioned-here.txt' }).waitFor()
    await untilIdle(page)
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
