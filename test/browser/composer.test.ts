import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { say, untilIdle, withBrowser } from '../support/browser.ts'

describe('composer in a browser', () => {
  const { server, start, forgive } = withBrowser()

  it('sends on Enter and adds a line on Shift+Enter', async () => {
    const { id, page } = await start('Lines')
    const field = page.getByRole('textbox', { name: 'Message' })
    // The composer is focused when a conversation opens; after Escape, "c" focuses it again.
    await page.keyboard.press('Escape')
    await page.keyboard.press('c')
    await page.keyboard.type('one')
    await page.keyboard.press('Shift+Enter')
    await page.keyboard.type('two')
    expect(await field.inputValue()).toBe('one\ntwo')
    await page.keyboard.press('Enter')
    await page.locator('.row.message').waitFor()
    await untilIdle(page)
    expect(await page.locator('.said').innerText()).toBe('one\ntwo')
    expect(await field.inputValue()).toBe('')
    const { items } = await server().client.messages(id)
    expect(items[0]?.content).toBe('one\ntwo')
  })

  it('[C3] attaches files mentioned with @ in full', async () => {
    const { project } = server().config
    mkdirSync(join(project, 'src'))
    writeFileSync(join(project, 'src', 'basket.ts'), 'export const basket = []\n')
    writeFileSync(join(project, 'notes.md'), 'notes\n')
    const { id, page } = await start('Mention')
    await page.keyboard.type('look at @bask')
    const choices = page.getByRole('listbox', { name: 'Files' })
    await expect.poll(() => choices.getByRole('option').allInnerTexts()).toEqual(['src/basket.ts'])
    await page.keyboard.press('Enter')
    const field = page.getByRole('textbox', { name: 'Message' })
    await expect.poll(() => field.inputValue()).toBe('look at @src/basket.ts ')
    await page.keyboard.type('and @no')
    await choices.getByText('notes.md').click()
    const along = page.getByRole('list', { name: 'Attachments' })
    await expect.poll(() => along.getByRole('listitem').count()).toBe(2)
    await along.getByRole('button', { name: 'Remove notes.md' }).click()
    await field.press('Enter')
    await page.locator('.row.message').waitFor()
    await untilIdle(page)
    expect(await page.getByRole('list', { name: 'Attached' }).innerText()).toBe('src/basket.ts')
    const { request } = await server().client.context(id)
    expect(request).toContain('export const basket = []')
  })

  it('[C9] attaches dropped text files and rejects binary files with a toast', async () => {
    const { id, page } = await start('Drop')
    const dropped = await page.evaluateHandle(() => {
      const transfer = new DataTransfer()
      transfer.items.add(new File(['All baskets are round.\n'], 'spec.md'))
      transfer.items.add(new File([new Uint8Array([0, 1, 2])], 'picture.bin'))
      return transfer
    })
    await page.getByRole('form', { name: 'Write a message' }).dispatchEvent('drop', { dataTransfer: dropped })
    await page.getByRole('list', { name: 'Attachments' }).getByText('spec.md').waitFor()
    await page.locator('.toast', { hasText: 'picture.bin is neither text nor an image' }).waitFor()
    await say(page, 'what do you think of it?')
    await untilIdle(page)
    expect(await page.getByRole('list', { name: 'Attached' }).innerText()).toContain('spec.md')
    const { request } = await server().client.context(id)
    expect(request).toContain('All baskets are round.')
  })

  it('[P3] keeps an unsent draft across a reload', async () => {
    const { page } = await start('Draft')
    await page.getByRole('textbox', { name: 'Message' }).fill('half a thought')
    await page.reload()
    await expect
      .poll(() => page.getByRole('textbox', { name: 'Message' }).inputValue())
      .toBe('half a thought')
  })

  it('[P3] [R1] rejects the eleventh queued message with a toast and keeps it in the composer', async () => {
    const { id, page } = await start('Full')
    await say(page, '!wait 50\n!say 3000')
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor()
    for (let i = 1; i <= 10; i++) await server().client.sendMessage(id, { content: `message ${i}` })
    await expect.poll(() => page.locator('.waiting li').count()).toBe(10)
    await page.getByRole('textbox', { name: 'Message' }).fill('one too many')
    await page.keyboard.press('Enter')
    await page.locator('.toast', { hasText: 'Ten messages are already queued.' }).waitFor()
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('one too many')
    for (const { run_id } of (await server().client.queue(id)).items)
      await server().client.removeQueued(id, run_id)
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByText('Stopped.').waitFor()
    forgive(/429/)
  })
})
