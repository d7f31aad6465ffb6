import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loseAnswer, say, transcriptText, untilIdle, withBrowser } from '../support/browser.ts'

/** Only visible rows are rendered, so comparing the whole text needs a viewport that fits all of it. */
const ALL_IN_SIGHT = { height: 3000 }

describe('transcript in a browser', () => {
  const { server, open, start, forgive } = withBrowser()

  it('starts a conversation, titles it by its first message, and shows the answer', async () => {
    const page = await open()
    await page.getByRole('heading', { name: 'What should the agent do?' }).waitFor()
    await page.getByText('Demo model: a script, not an AI').waitFor()
    await page.getByRole('textbox', { name: 'Message' }).blur()
    await page.keyboard.press('+')
    await say(page, 'I am Ada')
    await page.getByText('Hello Ada.').waitFor()
    await page.getByRole('heading', { level: 1, name: 'I am Ada' }).waitFor()
    await say(page, 'What is my name?')
    await page.getByText('Your name is Ada.').waitFor()
    await expect.poll(() => page.title()).toBe('I am Ada · Waymark')
    // The automatic title adds no row to the transcript.
    expect(await transcriptText(page)).not.toContain('Renamed')
  })

  it('renders an answer as Markdown with highlighted code', async () => {
    const { page } = await start('Markdown')
    const markdown = [
      '# A heading',
      'Some **bold**, *slanted* and `code` &amp; a [link](https://example.com/).',
      '- one\n- [x] done\n\n| a | b |\n| - | -: |\n| 1 | 2 |',
      '```ts\nconst answer: number = 42\n```',
      '> quoted',
    ].join('\n\n')
    await say(page, `!say ${JSON.stringify(markdown)}`)
    await untilIdle(page)
    const answer = page.locator('.answer')
    await answer.getByRole('heading', { name: 'A heading' }).waitFor()
    expect(await answer.locator('strong').innerText()).toBe('bold')
    expect(await answer.locator('em').innerText()).toBe('slanted')
    expect(await answer.getByText('& a').count()).toBe(1)
    const link = answer.getByRole('link', { name: 'link' })
    expect(await link.getAttribute('href')).toBe('https://example.com/')
    expect(await link.getAttribute('rel')).toBe('noopener noreferrer')
    expect(await answer.getByRole('cell').allInnerTexts()).toEqual(['1', '2'])
    await expect.poll(() => answer.locator('.hljs-keyword').innerText()).toBe('const')
    expect(await answer.locator('pre').innerText()).toBe('const answer: number = 42')
    expect(await answer.locator('blockquote').innerText()).toBe('quoted')
  })

  it('shows tool arguments, live output, status, duration and diffs, and folds reasoning', async () => {
    const { page } = await start('Tools')
    await say(
      page,
      [
        '!think 5',
        '!write_to_file {"path":"notes.txt","content":"one\\ntwo\\n"}',
        '!replace_in_file {"path":"notes.txt","search":"two","replace":"three"}',
        '!run_command {"command":"echo first; until [ -e go ]; do sleep 0.05; done; echo second"}',
      ].join('\n'),
    )
    const write = page.locator('.tool:has([title="write_to_file"])')
    await write.getByText('done').waitFor()
    expect(await write.locator('.diff-line.added .content').allInnerTexts()).toEqual(['one', 'two'])
    const replace = page.locator('.tool:has([title="replace_in_file"])')
    await replace.getByText('done').waitFor()
    expect(await replace.locator('.diff-line.removed .content').allInnerTexts()).toEqual(['two'])
    expect(await replace.locator('.diff-line.added .content').allInnerTexts()).toEqual(['three'])

    const command = page.locator('.tool:has([title="run_command"])')
    await command.getByText('waiting for approval').waitFor()
    await command.getByRole('button', { name: 'Allow' }).click()
    await command.getByText('Output so far').waitFor()
    await expect.poll(() => command.locator('.output').innerText()).toContain('first')
    writeFileSync(join(server().config.project, 'go'), '')
    await untilIdle(page)
    // Its output stays visible.
    await expect.poll(() => command.locator('.output').innerText()).toContain('first\nsecond')
    await command.getByText('Allowed by browser').waitFor()
    expect(await command.locator('.tool-time').innerText()).toMatch(/^(\d+(\.\d)? s)?$/)
    await command.getByText('Arguments').click()
    expect(await command.locator('pre').first().innerText()).toContain('"command": "echo first')

    const thought = page.getByRole('button', { name: 'Thought' })
    expect(await page.getByText('the ledger keeps every word').count()).toBe(0)
    await thought.click()
    await page.getByText('the ledger keeps every word').waitFor()
  })

  it('shows that a tool was denied, with the reason', async () => {
    const { page } = await start('Denied')
    await say(page, '!run_command {"command":"rm -rf /"}')
    const command = page.locator('.tool:has([title="run_command"])')
    await command.getByRole('textbox', { name: 'Reason (optional)' }).fill('too dangerous')
    await command.getByRole('button', { name: 'Deny' }).click()
    await command.getByText('denied', { exact: true }).waitFor()
    await untilIdle(page)
    await page.getByText('too dangerous').first().waitFor()
  })

  it('explains an error and sends the message again once on request', async () => {
    const { id, page } = await start('Errors')
    await say(page, '!fail 400')
    await page.getByText('Failed.').waitFor()
    await page.getByText('demo_failure').waitFor()
    await page.getByText('The provider rejected the request.').waitFor()
    // After a lost response, pressing again sends no duplicate.
    await loseAnswer(page, '**/messages')
    await page.getByRole('button', { name: 'Send again' }).click()
    await page.locator('.toast', { hasText: 'The server is not responding.' }).waitFor()
    await page.getByRole('button', { name: 'Send again' }).first().click()
    await expect.poll(() => page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('')
    await untilIdle(page)
    await expect.poll(() => page.getByText('demo_failure').count()).toBe(2)
    expect((await server().client.messages(id)).items.filter(({ role }) => role === 'user')).toHaveLength(2)
    forgive(/ERR_FAILED/)
  })

  it('[P1] [L7] shows the same transcript after a reload during an answer and on a second device', async () => {
    const { id, page } = await start('Reload', ALL_IN_SIGHT)
    await say(page, '!wait 25\n!think 4\n!say 300')
    await page.waitForFunction(() => (document.querySelector('.answer')?.textContent?.length ?? 0) > 300)
    const other = await open(`/c/${id}`, ALL_IN_SIGHT)
    await other.locator('.answer').waitFor()
    const before = await page.locator('.answer').innerText()
    await page.reload()
    await page.locator('.answer').waitFor()
    // The answer continued during the reload.
    expect((await page.locator('.answer').innerText()).startsWith(before.trimEnd())).toBe(true)

    await untilIdle(page)
    await untilIdle(other)
    const end = await transcriptText(page)
    expect(end).toContain('tokens in')
    expect(await transcriptText(other)).toBe(end)
    await page.reload()
    await page.getByText('tokens in').waitFor()
    expect(await transcriptText(page)).toBe(end)
  })

  it('[P1] [L7] shows the same partial answer after Stop and a reload', async () => {
    const { page } = await start('Stopped', ALL_IN_SIGHT)
    await say(page, '!wait 30\n!say 1000')
    await page.waitForFunction(() => (document.querySelector('.answer')?.textContent?.length ?? 0) > 200)
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByText('Stopped.').waitFor()
    await untilIdle(page)
    const text = await transcriptText(page)
    await page.reload()
    await page.getByText('Stopped.').waitFor()
    expect(await transcriptText(page)).toBe(text)
  })

  it('[R1] [P3] shows queued messages as removable chips and runs the remaining ones', async () => {
    const { page } = await start('Queue')
    await say(page, '!wait 50\n!say 2000')
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor()
    await say(page, 'second message')
    await say(page, 'third message')
    const waiting = page.getByRole('list', { name: 'Queued messages' })
    await expect.poll(() => waiting.getByRole('listitem').count()).toBe(2)
    await page.getByRole('navigation', { name: 'Conversations' }).getByText('2 queued').waitFor()
    await waiting.getByRole('button', { name: 'Remove “third message” from the queue' }).click()
    await expect.poll(() => waiting.getByRole('listitem').count()).toBe(1)
    // A removed message can be moved back to the composer.
    await page
      .locator('.toast', { hasText: 'Removed from the queue: third message' })
      .getByRole('button', { name: 'Move to composer' })
      .click()
    await expect.poll(() => page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe('third message')
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.locator('.row.message', { hasText: 'second message' }).waitFor({ timeout: 20_000 })
    await untilIdle(page)
    expect(await transcriptText(page)).not.toContain('third message')
  })

  it('shows a memory checkpoint as a divider that expands to what was kept and dropped', async () => {
    const { id, page } = await start('Memory')
    await say(page, 'I am Ada')
    await page.getByText('Hello Ada.').waitFor()
    await say(page, 'something else')
    await untilIdle(page)
    await server().client.shortenMemory(id, { strategy: 'summarize' })
    await say(page, 'and now?')
    const divider = page.getByRole('button', { name: /The model’s memory was summarized/ })
    await divider.waitFor()
    await untilIdle(page)
    await divider.click()
    await page.getByText('everything from event').waitFor()
    await page.getByText('my name is Ada').waitFor()
    await page.getByRole('button', { name: 'Undo: send the whole history again' }).click()
    await page.getByRole('button', { name: 'The model sees the whole history again' }).waitFor()
  })

  it('[P1] closes the connection of a hidden tab and catches up when the tab is shown again', async () => {
    const { id } = await server().client.createConversation({ title: 'Hidden' })
    const page = await open('/')
    await page.addInitScript(() => {
      Object.defineProperty(document, 'hidden', { get: () => sessionStorage.getItem('hidden') === 'yes' })
    })
    await page.clock.install()
    await page.goto(`${server().url}/c/${id}`)
    await page.getByRole('heading', { name: 'Send a message' }).waitFor()
    const look = (hidden: 'yes' | 'no') =>
      page.evaluate((value) => {
        sessionStorage.setItem('hidden', value)
        document.dispatchEvent(new Event('visibilitychange'))
      }, hidden)
    const closed = page.waitForEvent('requestfailed', (request) => request.url().includes('/ledger/stream'))
    await look('yes')
    await page.clock.runFor(61_000)
    await closed
    await server().client.sendMessage(id, { content: 'meanwhile' })
    await expect.poll(async () => (await server().client.messages(id)).items.length).toBe(2)
    expect(await page.getByText('meanwhile').count()).toBe(0)
    await look('no')
    await page.clock.runFor(1000)
    await expect
      .poll(async () => {
        await page.clock.runFor(100)
        return await page.locator('.said').allInnerTexts()
      })
      .toEqual(['meanwhile'])

    // Also for a tab opened in the background and never shown.
    await look('yes')
    await page.reload()
    await page.locator('.said', { hasText: 'meanwhile' }).waitFor()
    const again = page.waitForEvent('requestfailed', (request) => request.url().includes('/ledger/stream'))
    await page.clock.runFor(61_000)
    await again
  })
})
