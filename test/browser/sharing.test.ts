import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AnyFrame } from '../../src/protocol/frames.ts'
import { applyFrames } from '../../src/replay/reduce.ts'
import { emptyTranscript } from '../../src/replay/transcript.ts'
import { joinedFrames } from '../../src/sharing/joined-frames.ts'
import { withBrowser } from '../support/browser.ts'
import { allFrames, ask } from '../support/runs.ts'

const DOT =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
const HOSTILE = '</script><script>window.attacked = 1</script><!--<img src=x onerror="window.attacked = 2">'
const KEY = `sk-proj-${'a1B2'.repeat(8)}`

/** The text of all rows, without their actions. */
async function rowTexts(page: Page): Promise<string[]> {
  return await page.locator('.rows .row').evaluateAll((rows) =>
    rows.map((row) => {
      const copy = row.cloneNode(true) as HTMLElement
      for (const action of copy.querySelectorAll('.row-actions, .more-actions, .copy')) action.remove()
      return (copy.textContent ?? '').trim()
    }),
  )
}

describe('sharing a conversation', () => {
  const { server, open } = withBrowser()
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'waymark-shared-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  async function conversation(): Promise<string> {
    const { id } = await server().client.createConversation({ title: `Basket ${HOSTILE}`, mode: 'edit' })
    const attachments = [
      { name: 'dot.png', content: DOT },
      { name: 'notes.txt', content: `DB_PASSWORD=hunter2hunter2\n${HOSTILE}` },
    ]
    await ask(server(), id, `Look at this: ${HOSTILE}`, { attachments })
    await ask(server(), id, '!write_to_file {"path":"basket.ts","content":"const sum = 1\\n"}')
    await ask(server(), id, '!replace_in_file {"path":"basket.ts","search":"1","replace":"2"}')
    await ask(server(), id, '!think 4\n!say 30')
    // The answer repeats it word by word.
    await ask(server(), id, `I am ${KEY} and more`)
    await ask(server(), id, 'What is my name?')
    return id
  }

  it('[P5] writes a file that shows the same transcript as the page, without secrets, and runs no script of the conversation', async () => {
    const id = await conversation()
    const page = await open(`/c/${id}`, { height: 6000 })
    await page.locator('.run-end').nth(10).waitFor()
    const shown = await rowTexts(page)
    await page.getByRole('button', { name: 'Share' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('Redacted: 2 secrets').waitFor()
    expect(await dialog.locator('.files-report').innerText()).toContain('sk-p…')
    await dialog.getByRole('textbox', { name: 'Also redact' }).fill('const sum')
    await dialog.getByText('Redacted: 3 secrets').waitFor()
    const downloading = page.waitForEvent('download')
    await dialog.getByRole('button', { name: 'Download' }).click()
    const file = join(folder, 'shared.html')
    await (await downloading).saveAs(file)
    const html = readFileSync(file, 'utf8')
    for (const secret of [KEY, 'hunter2hunter2', 'const sum']) expect(html).not.toContain(secret)

    const context = await page
      .context()
      .browser()
      ?.newContext({
        viewport: { width: 1280, height: 6000 },
        locale: 'en-GB',
        timezoneId: 'UTC',
      })
    const shared = await context?.newPage()
    if (!context || !shared) throw new Error('no browser')
    const problems: string[] = []
    const requested: string[] = []
    shared.on('pageerror', (error) => problems.push(String(error)))
    shared.on('console', (message) => message.type() === 'error' && problems.push(message.text()))
    shared.on('request', (request) => requested.push(request.url()))
    await shared.goto(pathToFileURL(file).href)
    await shared.locator('.run-end').nth(10).waitFor()
    const expected = shown.map((row) =>
      row.replaceAll(KEY, '<redacted>').replaceAll('const sum', '<redacted>'),
    )
    await expect.poll(() => rowTexts(shared)).toEqual(expected)
    await shared.getByRole('button', { name: 'notes.txt' }).click()
    await shared.getByText('DB_PASSWORD=<redacted>').waitFor()
    await shared.getByRole('button', { name: 'dot.png' }).click()
    await shared.locator('img.attached-image').waitFor()
    expect(await shared.evaluate('window.attacked')).toBeUndefined()
    expect(await shared.locator('script').count()).toBe(2)
    expect(requested.filter((url) => !url.startsWith('file:') && !url.startsWith('data:'))).toEqual([])
    expect(problems).toEqual([])

    await shared.getByRole('slider').fill('3')
    await expect.poll(async () => (await rowTexts(shared)).length).toBeLessThan(5)
    await context.close()
  })

  it('joins streamed texts without changing the transcript', async () => {
    const id = await conversation()
    const frames: AnyFrame[] = await allFrames(server(), id)
    const joined = joinedFrames(frames)
    expect(joined.length).toBeLessThan(frames.length)
    expect(applyFrames(emptyTranscript(), joined)).toEqual(applyFrames(emptyTranscript(), frames))
  })

  it('exports a conversation and imports it again', async () => {
    const id = await conversation()
    const page = await open(`/c/${id}`)
    await page.getByRole('button', { name: 'Share' }).click()
    const downloading = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Export everything' }).click()
    const file = join(folder, 'basket.waymark.tar')
    await (await downloading).saveAs(file)
    await page.goto(server().url)
    const chooser = page.waitForEvent('filechooser')
    await page.getByRole('button', { name: 'Import a conversation' }).click()
    await (await chooser).setFiles(file)
    await page.getByText('0 conversations imported; 1 already here.').waitFor()
    await expect.poll(() => page.url()).toContain(id)
  })
})
