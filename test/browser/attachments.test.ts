import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { allowCall, say, untilIdle, withBrowser } from '../support/browser.ts'

describe('attachments and mentioned files in a browser', () => {
  const { server, start, forgive } = withBrowser()
  const field = (page: Page) => page.getByRole('textbox', { name: 'Message' })
  const along = (page: Page) => page.getByRole('list', { name: 'Attachments' })
  const attach = (page: Page, name: string, text: string) =>
    page
      .locator('input[type=file]')
      .setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(text) })

  it('[C9] [P3] keeps attachments across a reload, shows their text, and attaches them again to an edited message', async () => {
    const { id, page } = await start('Along')
    const [spec, log] = ['# All baskets are <b>round</b>.\n', 'one\ntwo\n'.repeat(5000)]
    await page.locator('input[type=file]').setInputFiles([
      { name: 'spec.md', mimeType: 'text/markdown', buffer: Buffer.from(spec) },
      { name: 'run.log', mimeType: 'text/plain', buffer: Buffer.from(log) },
    ])
    const along = page.getByRole('list', { name: 'Attachments' })
    await expect.poll(() => along.getByRole('listitem').count()).toBe(2)
    await page.reload()
    await expect.poll(() => along.getByRole('listitem').count()).toBe(2)
    await say(page, 'does the code do this?')
    await untilIdle(page)
    expect(await along.count()).toBe(0)

    const sent = page.getByRole('list', { name: 'Attached' })
    await sent.getByRole('button', { name: 'spec.md' }).click()
    await expect.poll(() => page.locator('.attachment pre').textContent()).toBe(spec)
    await sent.getByRole('button', { name: 'run.log' }).click()
    await expect.poll(() => page.locator('.attachment pre').textContent()).toBe(log)
    await sent.getByRole('button', { name: 'run.log' }).click()
    await page.locator('.attachment').waitFor({ state: 'detached' })

    await page.getByRole('button', { name: 'Edit and fork' }).click()
    await page.getByRole('dialog').getByText('Attached again: spec.md, run.log').waitFor()
    await page.getByRole('dialog').getByRole('textbox', { name: 'Message' }).fill('in other words')
    await page.getByRole('dialog').getByRole('button', { name: 'Fork and send' }).click()
    await page.getByRole('heading', { level: 1, name: 'in other words' }).waitFor()
    await page.locator('.row.message').waitFor()
    await untilIdle(page)
    const fork = new URL(page.url()).pathname.split('/')[2] ?? ''
    expect(fork).not.toBe(id)
    expect((await server().client.context(fork)).request).toContain(spec.slice(0, 20))
    await sent.getByRole('button', { name: 'run.log' }).click()
    await expect.poll(() => page.locator('.attachment pre').textContent()).toBe(log)
  })

  it('[P3] returns attachments to the composer with a message removed from the queue or cleared by a deletion', async () => {
    writeFileSync(join(server().config.project, 'notes.md'), 'notes')
    const { id, page } = await start('Out')
    await say(page, '!wait 50\n!say 2000')
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor()
    await attach(page, 'spec.md', 'round')
    await field(page).fill('')
    await page.keyboard.type('look at @notes')
    await page.getByRole('option', { name: 'notes.md' }).waitFor()
    await page.keyboard.press('Enter')
    await along(page).getByText('notes.md').waitFor()
    await page.keyboard.press('Enter')
    const waiting = page.getByRole('list', { name: 'Queued messages' })
    await waiting.getByText('Has attachments').waitFor({ state: 'attached' })
    await waiting.getByRole('button', { name: /^Remove/ }).click()
    await page.getByRole('button', { name: 'Move to composer' }).click()
    await expect.poll(() => along(page).getByRole('listitem').count()).toBe(2)
    expect(await field(page).inputValue()).toBe('look at @notes.md ')
    await page.keyboard.press('Enter')
    await waiting.waitFor()
    await page.getByRole('button', { name: 'Delete from here' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await expect.poll(() => along(page).getByRole('listitem').count()).toBe(2)
    expect(await field(page).inputValue()).toBe('look at @notes.md ')

    // Undoing the deletion of a conversation returns its queued messages to the composer.
    await server().client.sendMessage(id, { content: '!wait 50\n!say 2000' })
    await server().client.sendMessage(id, { content: 'x'.repeat(100) })
    const row = page
      .getByRole('navigation', { name: 'Conversations' })
      .getByRole('listitem')
      .filter({ hasText: 'Out' })
    await row.getByText('1 queued').waitFor()
    await row.hover()
    await row.getByRole('button', { name: 'Delete “Out”' }).click()
    await page.getByRole('dialog').getByText('1 queued message will be moved back').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page
      .locator('.toast', { hasText: '“Out” was deleted.' })
      .getByRole('button', { name: 'Undo' })
      .click()
    await page.getByRole('heading', { level: 1, name: 'Out' }).waitFor()
    await expect.poll(() => field(page).inputValue()).toBe(`${'x'.repeat(100)}\n\nlook at @notes.md `)
    forgive(/404/)
  })

  it('[P3] keeps attachments when another tab sends the same draft without them', async () => {
    const { id, page } = await start('Two tabs')
    await attach(page, 'spec.md', 'round')
    await field(page).fill('do this')
    await along(page).getByText('spec.md').waitFor()
    const second = await page.context().newPage()
    await second.goto(`${server().url}/c/${id}`)
    await second.getByText('No longer available: spec.md.').waitFor()
    await field(second).press('Enter')
    await second.locator('.said', { hasText: 'do this' }).waitFor()
    await untilIdle(second)
    await field(page).press('Enter')
    await expect
      .poll(
        async () => (await server().client.messages(id)).items.filter(({ role }) => role === 'user').length,
      )
      .toBe(2)
    await untilIdle(page)
    expect((await server().client.context(id)).request).toContain('round')
  })

  it('[P3] waits until attachments are read, keeps their exact text, and shows their size in bytes', async () => {
    const { id, page } = await start('Reading')
    await page.evaluate(() => {
      const read = File.prototype.arrayBuffer
      File.prototype.arrayBuffer = async function slow() {
        await new Promise((resolve) => setTimeout(resolve, 300))
        return await read.call(this)
      }
    })
    await attach(page, 'bom.txt', '\ufeffgrün')
    await field(page).fill('at once')
    await field(page).press('Enter')
    await page.getByRole('list', { name: 'Attached' }).getByText('8 B').waitFor()
    await untilIdle(page)
    expect(await along(page).count()).toBe(0)
    expect((await server().client.context(id)).request).toContain('\ufeffgrün')
    await page.locator('input[type=file]').setInputFiles(
      Array.from({ length: 21 }, (_, n) => ({
        name: `${n}.txt`,
        mimeType: 'text/plain',
        buffer: Buffer.from(`${n}`),
      })),
    )
    await page.locator('.toast', { hasText: 'You can attach at most 20 files.' }).waitFor()
    expect(await along(page).getByRole('listitem').count()).toBe(20)
  })

  it('[P3] keeps the message text when storage has no room for attachments', async () => {
    const { page } = await start('Room')
    await attach(page, 'a.txt', 'a'.repeat(3_000_000))
    await along(page).getByText('a.txt').waitFor()
    const other = await server().client.createConversation({ title: 'Other room' })
    await page.getByRole('navigation', { name: 'Conversations' }).getByText('Other room').click()
    await page.getByRole('heading', { level: 1, name: 'Other room' }).waitFor()
    await attach(page, 'b.txt', 'b'.repeat(3_000_000))
    await page.getByText('This draft is too long to survive a reload.').waitFor()
    await field(page).fill('some words')
    await page.reload()
    await expect.poll(() => field(page).inputValue()).toBe('some words')
    await page.getByText('No longer available: b.txt.').waitFor()
    expect(page.url()).toContain(other.id)
  })

  it('shows a toast when a file is dropped where it can’t be attached', async () => {
    const { page } = await start('Elsewhere')
    await say(page, 'hello')
    await untilIdle(page)
    const drop = async () => {
      const dropped = await page.evaluateHandle(() => {
        const transfer = new DataTransfer()
        transfer.items.add(new File(['text'], 'spec.md'))
        return transfer
      })
      await page.locator('body').dispatchEvent('drop', { dataTransfer: dropped })
    }
    await page.getByRole('button', { name: 'Edit and fork' }).click()
    await drop()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
    expect(await along(page).count()).toBe(0)
    await page.getByRole('link', { name: 'Changes', exact: true }).click()
    await drop()
    await page.locator('.toast', { hasText: 'To attach files, open a transcript' }).waitFor()
  })

  it('[C9] shows the full output of a tool on request', async () => {
    const { id, page } = await start('Output')
    await say(page, '!run_command {"command":"seq 1 30000"}')
    await allowCall(page)
    await untilIdle(page)
    const card = page.locator('.tool:has([title="run_command"])')
    const folded = await card.locator('.output').innerText()
    expect(folded).not.toContain('15000\n')
    // The end often has the result.
    expect(folded).toContain('29999\n30000')
    await card.getByRole('button', { name: 'Show all' }).click()
    await expect.poll(() => card.locator('.output').innerText()).toContain('15000\n15001')
    const frame = (await server().client.events(id, { limit: 1000 })).items.find(
      (one) => one.kind === 'tool.output' && 'output_ref' in one,
    )
    expect(frame).toBeDefined()
    await expect(server().client.output(id, 'nonsense')).rejects.toMatchObject({ code: 'output_not_found' })
  })
})
