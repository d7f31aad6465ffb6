import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { say, untilIdle, withBrowser } from '../support/browser.ts'

describe('timeline, context and forks in a browser', () => {
  const { server, open, start } = withBrowser()
  const view = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).click()
  const scrubber = (page: Page) => page.getByRole('slider', { name: 'Event' })
  const filesThen = (page: Page) => page.getByRole('region', { name: 'Files at this event' })
  const then = (page: Page) => page.getByRole('region', { name: 'Transcript at this event' })

  async function eventsOf(id: string) {
    const { items } = await server().client.events(id, { limit: 1000 })
    return items as { event_id: number; kind: string; path?: string; content?: string }[]
  }

  it('[P7] shows transcript and files at any event, and how the files differ from now', async () => {
    const { id, page } = await start('Timeline')
    writeFileSync(join(server().config.project, 'poem.txt'), 'roses\n')
    await say(page, 'I am Ada')
    await untilIdle(page)
    await say(
      page,
      [
        '!replace_in_file {"path":"poem.txt","search":"roses","replace":"violets"}',
        '!write_to_file {"path":"second.txt","content":"two\\n"}',
      ].join('\n'),
    )
    await untilIdle(page)
    await say(page, '!write_to_file {"path":"poem.txt","content":"tulips\\n"}')
    await untilIdle(page)
    await view(page, 'Timeline')
    const events = await eventsOf(id)
    const at = (kind: string, nth = 0) => events.filter((event) => event.kind === kind)[nth]?.event_id ?? 0

    // Before the second message: one message, and the first poem.
    await scrubber(page).fill(String(at('message.user', 1) - 1))
    await expect.poll(() => then(page).innerText()).not.toContain('violets')
    await expect.poll(() => then(page).innerText()).toContain('Hello Ada.')
    await filesThen(page).getByText('2 changed since').waitFor()
    await filesThen(page)
      .getByRole('button', { name: /second\.txt.*added later/ })
      .waitFor()
    await filesThen(page)
      .getByRole('button', { name: /poem\.txt.*changed later/ })
      .click()
    await expect.poll(() => page.locator('.file-text').innerText()).toBe('roses\n')
    await filesThen(page).getByRole('button', { name: 'Changes until now' }).click()
    await expect.poll(() => page.locator('.file-then .diff-line.added .content').innerText()).toBe('tulips')

    // In the middle of the run, after its first edit: no checkpoint was made there.
    await scrubber(page).fill(String(at('file.edit', 0)))
    await filesThen(page).getByRole('button', { name: 'At this event', exact: true }).click()
    await expect.poll(() => page.locator('.file-text').innerText()).toBe('violets\n')
    await filesThen(page)
      .getByRole('button', { name: /second\.txt.*added later/ })
      .waitFor()
    expect(await then(page).innerText()).toContain('Running …')

    // By keyboard: to the next message, and to now.
    await then(page).click()
    await page.keyboard.press(']')
    await expect.poll(() => scrubber(page).inputValue()).toBe(String(at('message.user', 2)))
    await page.keyboard.press('End')
    await filesThen(page).getByText('same as now').waitFor()
    await page.keyboard.press('Home')
    await expect.poll(() => then(page).innerText()).toContain('No messages yet.')

    // The URL opens the same event.
    await expect.poll(() => page.url()).toContain('at=1')
    const other = await open(`/c/${id}/timeline?at=${at('message.user', 1)}`)
    await expect.poll(() => scrubber(other).inputValue()).toBe(String(at('message.user', 1)))
  })

  it('[P7] replays the timeline word by word with its original timing', async () => {
    const { page } = await start('Replay')
    await say(page, '!write_to_file {"path":"played.txt","content":"x"}\n!wait 150\n!say 20')
    await untilIdle(page)
    await view(page, 'Timeline')
    await page.getByRole('button', { name: 'Play', exact: true }).click()
    const lengths = new Set<number>()
    const files: boolean[] = []
    await expect
      .poll(
        async () => {
          lengths.add((await page.locator('.then .answer').allInnerTexts()).join('').length)
          const row = filesThen(page).getByRole('button', { name: /played\.txt/ })
          files.push((await row.allInnerTexts()).join('').includes('added later'))
          return await page.getByRole('button', { name: 'Play', exact: true }).count()
        },
        { interval: 20 },
      )
      .toBe(1)
    expect(lengths.size).toBeGreaterThan(5)
    // The file list changes during playback, not only at the end.
    expect(files).toContain(true)
    expect(files.slice(files.indexOf(true)).indexOf(false)).toBeGreaterThan(0)
    expect(files.lastIndexOf(true)).toBeLessThan(files.length - 5)
    await expect.poll(() => then(page).innerText()).toContain('tokens in')
    // After the end, scrubbing back does not restart playback.
    await scrubber(page).fill('1')
    await expect.poll(() => then(page).innerText()).toContain('No messages yet.')
    expect(await page.getByRole('button', { name: 'Play', exact: true }).count()).toBe(1)
  })

  it('[P7] never shows one file’s text under another file’s name', async () => {
    const { page } = await start('Names')
    for (const name of ['n1.txt', 'n2.txt'])
      writeFileSync(join(server().config.project, name), `text of ${name}`)
    await say(page, 'hello')
    await untilIdle(page)
    await view(page, 'Timeline')
    await filesThen(page).getByRole('button', { name: 'n1.txt' }).click()
    await page.getByText('text of n1.txt').waitFor()
    await page.route('**/files/text?*', () => {})
    await filesThen(page).getByRole('button', { name: 'n2.txt' }).click()
    await page.getByText('text of n1.txt').waitFor({ state: 'detached' })
  })

  it('[C8] shows each request by origin and tokens, and in full', async () => {
    const { id, page } = await start('Context')
    await say(page, 'I am Ada')
    await untilIdle(page)
    await say(page, 'What is my name?')
    await untilIdle(page)
    await page.getByRole('link', { name: 'What the model saw' }).first().click()
    await page.getByText('First request: everything was sent.').waitFor()
    const article = page.locator('article').first()
    expect(await article.locator('.legend').first().innerText()).toContain('Instructions')
    const width = await article
      .locator('.bar')
      .first()
      .evaluate(
        (bar) =>
          [...bar.children].reduce((sum, part) => sum + part.getBoundingClientRect().width, 0) /
          bar.clientWidth,
      )
    expect(width).toBeGreaterThan(0.95)

    await page.getByRole('navigation', { name: 'Requests to the model' }).getByRole('link').first().click()
    await article.getByText('Follow-up: the provider had the rest').waitFor()
    await page.getByText('held by the provider').first().waitFor()
    await article
      .getByRole('button', { name: /^Message/ })
      .last()
      .click()
    await article.locator('.part-text', { hasText: 'What is my name?' }).waitFor()
    await article.getByText('Estimated by Waymark').waitFor()
    await page.getByRole('button', { name: 'Full request' }).click()
    await article.getByRole('checkbox', { name: 'exact bytes' }).check()
    const { request } = await server().client.context(id)
    expect(await article.locator('.body').innerText()).toBe(request)
    await page.getByRole('heading', { name: 'Sent with the next message' }).waitFor()
  })

  it('[W11] adopts the files of a fork from its changes, with a preview and undo', async () => {
    const { id, page } = await start('Parent')
    const at = join(server().config.project, 'adopted.txt')
    writeFileSync(at, 'one\n')
    await say(page, 'I am Ada')
    await untilIdle(page)
    const fork = await server().client.fork(id, { title: 'Better', files: 'copy' })
    await server().client.sendMessage(fork.id, {
      content: '!write_to_file {"path":"adopted.txt","content":"two\\n"}',
    })
    await expect.poll(async () => (await server().client.edits(fork.id)).items.length).toBe(1)
    await expect.poll(async () => (await server().client.queue(fork.id)).active).toBeNull()
    await page.goto(`${new URL(page.url()).origin}/c/${fork.id}/changes`)
    await page.getByRole('button', { name: 'Adopt into “Parent” …' }).click()
    const dialog = page.getByRole('dialog', { name: 'Adopt the files of this fork' })
    await dialog.getByText('adopted.txt').waitFor()
    expect(readFileSync(at, 'utf8')).toBe('one\n')
    await dialog.getByRole('button', { name: 'Adopt', exact: true }).click()
    await expect.poll(() => readFileSync(at, 'utf8')).toBe('two\n')
    await page.getByRole('button', { name: 'Undo', exact: true }).click()
    await expect.poll(() => readFileSync(at, 'utf8')).toBe('one\n')
  })

  it('draws forks as a graph and compares two side by side', async () => {
    const { id, page } = await start('Family')
    await say(page, 'I am Ada')
    await untilIdle(page)
    const fork = await server().client.fork(id, { title: 'The fork', files: 'copy' })
    const grandchild = await server().client.fork(fork.id, { title: 'A fork of it' })
    await server().client.sendMessage(fork.id, {
      content: '!write_to_file {"path":"b.txt","content":"from the fork\\n"}',
    })
    await say(page, 'only here')
    await untilIdle(page)
    await expect.poll(async () => (await server().client.queue(fork.id)).active).toBeNull()
    // Make a checkpoint that includes the edit before comparing.
    await server().client.sendMessage(fork.id, { content: 'only there' })
    await expect
      .poll(async () => (await server().client.messages(fork.id)).items.at(-1)?.content)
      .toContain('demo')

    await view(page, 'Forks')
    const family = page.locator('.family')
    await expect.poll(() => family.getByRole('listitem').count()).toBe(3)
    expect(await family.locator('circle').count()).toBe(3)
    expect(await family.getByRole('listitem').nth(1).innerText()).toContain('own working copy')
    expect(await family.getByRole('link').allInnerTexts()).toEqual(['Family', 'The fork', 'A fork of it'])
    await family.getByRole('radio', { name: 'Compare The fork' }).check()
    const comparison = page.getByRole('region', { name: 'Side by side' })
    await comparison.getByText('Identical up to event').waitFor()
    const sides = comparison.locator('.side-by-side')
    await sides.nth(1).getByText('Created').first().waitFor()
    expect(await sides.nth(0).innerText()).toContain('only here')
    expect(await sides.nth(1).innerText()).toContain('only there')
    await comparison.locator('.changed-file', { hasText: 'b.txt' }).getByText('from the fork').waitFor()
    expect(page.url()).toContain(`with=${fork.id}`)
    await family.getByRole('link', { name: 'A fork of it' }).click()
    await expect.poll(() => page.url()).toContain(grandchild.id)
  })
})
