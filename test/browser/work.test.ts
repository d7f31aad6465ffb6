import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { say, untilIdle, withBrowser } from '../support/browser.ts'

describe('restore, reset, fork and delete in a browser', () => {
  const { server, start, open } = withBrowser()
  const fileOf = (name: string) => join(server().config.project, name)
  const read = (name: string) => (existsSync(fileOf(name)) ? readFileSync(fileOf(name), 'utf8') : null)
  const dialog = (page: Page) => page.getByRole('dialog')
  const toast = (page: Page, text: string | RegExp) => page.locator('.toast', { hasText: text })
  const view = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).click()

  async function write(page: Page, path: string, content: string): Promise<void> {
    await say(page, `!write_to_file ${JSON.stringify({ path, content })}`)
    await untilIdle(page)
  }

  it('[P4] [W4] previews a restore to a message, restores the files, and undoes it', async () => {
    const { page } = await start('Restore')
    await write(page, 'kept.txt', 'first\n')
    writeFileSync(fileOf('by-hand.txt'), 'mine\n')
    await say(page, '!write_to_file {"path":"kept.txt","content":"second\\n"}')
    await page.getByText('returned: Wrote').waitFor()
    await untilIdle(page)

    const second = page.locator('.row.message').nth(1)
    await second.getByRole('button', { name: 'Restore files to this point' }).click()
    await dialog(page).getByText('Files to restore (1)').waitFor()
    expect(await dialog(page).locator('.files-report li').allInnerTexts()).toEqual(['kept.txt'])
    // Files that are not in the checkpoint are listed and left as they are.
    await dialog(page).getByText('not in this checkpoint').click()
    await dialog(page).getByText('hidden').first().waitFor()
    expect(read('kept.txt')).toBe('second\n')
    await dialog(page).getByRole('button', { name: 'Restore files' }).click()
    await toast(page, '1 file restored, 0 deleted.').waitFor()
    expect(read('kept.txt')).toBe('first\n')
    expect(read('by-hand.txt')).toBe('mine\n')

    await toast(page, '1 file restored').getByRole('button', { name: 'Undo' }).click()
    await expect.poll(() => read('kept.txt')).toBe('second\n')
    // The transcript records both restores.
    await expect.poll(() => page.getByText('Files restored:').count()).toBe(2)
  })

  it('[P4] [W6] shows changes, previews a reset, undoes it, and approves', async () => {
    const { page } = await start('Changes')
    await write(page, 'new.txt', 'one\ntwo\n')
    await view(page, 'Changes')
    const card = page.locator('.changed-file', { hasText: 'new.txt' })
    await card.getByText('added').waitFor()
    expect(await card.locator('.diff-line.added .content').allInnerTexts()).toEqual(['one', 'two'])

    await page.getByRole('button', { name: 'Reset …' }).click()
    await dialog(page).getByText('Files to delete').waitFor()
    await dialog(page).getByRole('button', { name: 'Reset files' }).click()
    await toast(page, '1 deleted.').waitFor()
    expect(read('new.txt')).toBeNull()
    await page.getByText('Nothing has changed since the last approval.').waitFor()
    await toast(page, '1 deleted.').getByRole('button', { name: 'Undo' }).click()
    await expect.poll(() => read('new.txt')).toBe('one\ntwo\n')
    await card.waitFor()

    await page.getByRole('button', { name: 'Approve …' }).click()
    await dialog(page).getByText('new.txt').waitFor()
    await dialog(page).getByRole('textbox').fill('it works')
    await dialog(page).getByRole('button', { name: 'Approve', exact: true }).click()
    await toast(page, /Approved \d checkpoints?\. Started session_3\./).waitFor()
    await page.getByText('Nothing has changed since the last approval.').waitFor()
    expect(await page.locator('.sessions li').allInnerTexts()).toEqual([
      expect.stringMatching(/^session_3 active/),
      expect.stringMatching(/^session_2 approved/),
      expect.stringMatching(/^session_1 discarded/),
    ])
    await view(page, 'Transcript')
    await page.getByText('session_2 was approved: it works').waitFor()
  })

  it('[W12] shows who wrote each line, commits what was approved, and undoes what the person did', async () => {
    const git = (...args: string[]) =>
      execFileSync('git', args, { cwd: server().config.project, encoding: 'utf8' })
    git('init', '-q', '-b', 'main')
    git('config', 'user.name', 'Ada')
    git('config', 'user.email', 'ada@example.org')
    const { page } = await start('Lines')
    await write(page, 'lines.txt', 'one\ntwo\n')
    await view(page, 'Changes')
    const card = page.locator('.changed-file', { hasText: 'lines.txt' })
    await card.getByRole('button', { name: 'Show authors' }).click()
    await dialog(page).getByText('write_to_file').waitFor()
    expect(await dialog(page).locator('.lines code').allInnerTexts()).toEqual(['one', 'two'])
    await page.keyboard.press('Escape')
    await view(page, 'Timeline')
    await page.locator('.paths button', { hasText: 'lines.txt' }).click()
    await page.getByRole('button', { name: 'Show authors' }).click()
    await dialog(page)
      .getByRole('link', { name: /write_to_file/ })
      .click()
    await expect.poll(() => new URL(page.url()).searchParams.has('at')).toBe(true)
    await view(page, 'Changes')

    await page.getByRole('button', { name: 'Approve …' }).click()
    await dialog(page).getByRole('button', { name: 'Approve', exact: true }).click()
    await page.getByRole('button', { name: 'Commit …' }).click()
    await dialog(page).getByText('To main, as Ada <ada@example.org>').waitFor()
    await dialog(page).getByRole('textbox', { name: 'Message' }).fill('Lines')
    await dialog(page).getByRole('button', { name: 'Commit', exact: true }).click()
    await toast(page, /Committed \d+ files? to main/).waitFor()
    expect(git('log', '--format=%s').trim()).toBe('Lines')
    expect(git('show', 'HEAD:lines.txt')).toBe('one\ntwo\n')

    const approval = page.locator('.checkpoints li', { hasText: 'Approved the files' })
    await approval.getByRole('button', { name: 'Undo' }).click()
    await toast(page, 'Undone: Approved the files').waitFor()
    await card.waitFor()
    await approval.getByRole('button', { name: 'Redo' }).click()
    await page.getByText('Nothing has changed since the last approval.').waitFor()
    rmSync(join(server().config.project, '.git'), { recursive: true })
  })

  it('counts what was done on the start page', async () => {
    const { page } = await start('Counted')
    await write(page, 'counted.txt', 'x')
    await page.goto(`${server().url}/`)
    await page.getByRole('button', { name: 'Insights' }).click()
    await dialog(page).getByText('Tokens by day').waitFor()
    await dialog(page).getByText('write_to_file').waitFor()
    expect(await dialog(page).locator('.insight-totals dt').allInnerTexts()).toContain('Model time')
    const asked = page.waitForRequest((request) => request.url().includes('/stats?'))
    await dialog(page).getByRole('combobox', { name: 'Period' }).selectOption('The last 7 days')
    const since = new URL((await asked).url()).searchParams.get('since') ?? ''
    expect(Math.round((Date.now() - Date.parse(since)) / 3_600_000)).toBe(7 * 24)
    await dialog(page).getByText('write_to_file').waitFor()
  })

  it('[P4] shows changes made meanwhile before an approval or an undo', async () => {
    const { page } = await start('Others')
    await write(page, 'ours.txt', 'x\n')
    await view(page, 'Changes')
    await page.locator('.changed-file', { hasText: 'ours.txt' }).waitFor()
    writeFileSync(fileOf('theirs.txt'), 'not ready\n')
    await page.getByRole('button', { name: 'Approve …' }).click()
    await dialog(page).getByText('theirs.txt').waitFor()
    await page.keyboard.press('Escape')
    await page.locator('.changed-file', { hasText: 'theirs.txt' }).waitFor()

    await view(page, 'Transcript')
    await page
      .locator('.row.message')
      .first()
      .getByRole('button', { name: 'Restore files to this point' })
      .click()
    await dialog(page).getByRole('button', { name: 'Restore files' }).click()
    await toast(page, /restored/).waitFor()
    await write(page, 'later.txt', 'later\n')
    await page.getByRole('button', { name: 'Undo this restore' }).click()
    await dialog(page).getByText('later.txt').waitFor()
    expect(read('later.txt')).toBe('later\n')
    await dialog(page).getByRole('button', { name: 'Cancel' }).click()
    expect(read('later.txt')).toBe('later\n')
  })

  it('[P4] [W4] restores any listed checkpoint and lists skipped files', async () => {
    const { page } = await start('Checkpoints')
    await write(page, 'deep.txt', 'x\n')
    await write(page, 'other.txt', 'y\n')
    // A folder with an uncaptured file takes the place of deep.txt.
    rmSync(fileOf('deep.txt'))
    mkdirSync(fileOf('deep.txt'))
    writeFileSync(join(fileOf('deep.txt'), '.secret'), 'never captured')
    await view(page, 'Changes')
    const last = page.locator('.checkpoints li', { hasText: 'other.txt' })
    await last.getByRole('button', { name: 'Restore' }).click()
    await dialog(page).getByText('Skipped (1)').waitFor()
    await dialog(page).getByRole('button', { name: 'Cancel' }).click()
    expect(read('other.txt')).toBe('y\n')
    await last.getByRole('button', { name: 'Restore' }).click()
    await dialog(page).getByRole('button', { name: 'Restore files' }).click()
    await toast(page, '0 files restored, 1 deleted, 1 skipped.').waitFor()
    expect(await toast(page, 'skipped').locator('li').allInnerTexts()).toEqual([
      expect.stringMatching(/^deep\.txt: .+/),
    ])
    expect(read('other.txt')).toBeNull()
    expect(read('deep.txt/.secret')).toBe('never captured')
    rmSync(fileOf('deep.txt'), { recursive: true })
  })

  it('[W8] disables approve, reset and restore while the agent runs, and shows why', async () => {
    const { page } = await start('Busy')
    await say(page, '!wait 50\n!say 2000')
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor()
    await view(page, 'Changes')
    await page.getByText('A run is active.').waitFor()
    expect(await page.getByRole('button', { name: 'Reset …' }).isDisabled()).toBe(true)
    await view(page, 'Transcript')
    await page.getByRole('button', { name: 'Restore files to this point' }).click()
    await dialog(page).getByText('A run is active.').waitFor()
    expect(await dialog(page).getByRole('button', { name: 'Restore files' }).isDisabled()).toBe(true)
    await dialog(page).getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await page.getByText('Stopped.').waitFor()
  })

  it('forks before a message and answers its edited text; forks after a message with a copy of the files', async () => {
    const { id, page } = await start('Root')
    await say(page, 'I am Ada')
    await page.getByText('Hello Ada.').waitFor()
    await say(page, 'I am Bob')
    await page.getByText('Hello Bob.').waitFor()
    await untilIdle(page)

    await page.locator('.row.message').nth(1).getByRole('button', { name: 'Edit and fork' }).click()
    await dialog(page).getByRole('textbox', { name: 'Message' }).fill('What is my name?')
    await dialog(page).getByRole('textbox', { name: 'Title' }).fill('Another wording')
    await dialog(page).getByRole('button', { name: 'Fork and send' }).click()
    await page.getByText('Your name is Ada.').waitFor()
    await page.getByRole('heading', { level: 1, name: 'Another wording' }).waitFor()
    expect(await page.getByText('I am Bob').count()).toBe(0)
    await page.getByText('Forked here').waitFor()
    // The list shows the fork below its parent.
    const listed = page.getByRole('navigation', { name: 'Conversations' }).getByRole('listitem')
    await expect.poll(async () => await listed.nth(1).getAttribute('class')).toBe('depth-1')
    expect(await listed.nth(0).innerText()).toContain('Root')

    await page.goto(`${server().url}/c/${id}`)
    await page.getByText('Hello Bob.').waitFor()
    await page.getByRole('button', { name: 'Fork after this' }).last().click()
    await dialog(page).getByRole('radio', { name: /^Copy/ }).check()
    await dialog(page).getByRole('button', { name: 'Fork', exact: true }).click()
    await expect.poll(() => page.url()).not.toContain(id)
    await page.getByText('Forked here').waitFor()
    await say(page, '!write_to_file {"path":"only-there.txt","content":"x"}')
    await page.getByText('returned: Created').waitFor()
    expect(read('only-there.txt')).toBeNull()
  })

  it('[P4] [D1] [D2] [D3] previews a deletion, deletes, and undoes it', async () => {
    const { id, page } = await start('Delete')
    await say(page, 'I am Ada')
    await page.getByText('Hello Ada.').waitFor()
    await write(page, 'stays.txt', 'still here\n')
    const written = page.locator('.row.message', { hasText: 'stays.txt' })
    const other = await open(`/c/${id}`)
    await other.getByText('returned: Created').waitFor()

    await say(page, '!wait 50\n!say 2000')
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor()
    await say(page, 'waiting')
    await page.getByRole('list', { name: 'Queued messages' }).waitFor()
    await written.getByRole('button', { name: 'Delete from here' }).click()
    await dialog(page).getByText('2 messages and 2 answers are removed from this conversation').waitFor()
    await dialog(page).getByText('The active run is stopped first.').waitFor()
    await dialog(page).getByText('1 queued message will be moved back to the composer').waitFor()
    await dialog(page).getByRole('button', { name: 'Delete' }).click()
    await toast(page, '2 messages deleted;').waitFor()
    await toast(page, 'Moved from the queue to the composer: waiting').waitFor()
    const field = page.getByRole('textbox', { name: 'Message' })
    await expect.poll(() => field.inputValue()).toBe('waiting')
    await expect.poll(() => page.locator('.row.message').count()).toBe(1)
    await expect.poll(() => other.locator('.row.message').count()).toBe(1)
    expect(read('stays.txt')).toBe('still here\n')

    await toast(page, '2 messages deleted;').getByRole('button', { name: 'Undo' }).click()
    await toast(page, '2 messages deleted;').waitFor({ state: 'detached' })
    await expect.poll(() => page.locator('.row.message').count()).toBe(3)
    await expect.poll(() => other.locator('.row.message').count()).toBe(3)

    // Restoring the files after a deletion is optional.
    await written.getByRole('button', { name: 'Delete from here' }).click()
    await dialog(page).getByRole('button', { name: 'Delete' }).click()
    await toast(page, '2 messages deleted;').getByRole('button', { name: 'Also restore files' }).click()
    // The restore is previewed first.
    await dialog(page).getByText('Files to delete (1)').waitFor()
    expect(read('stays.txt')).toBe('still here\n')
    await dialog(page).getByRole('button', { name: 'Restore files' }).click()
    await expect.poll(() => read('stays.txt')).toBeNull()
    await other.getByRole('button', { name: 'Undo the deletion' }).click()
    await expect.poll(() => page.locator('.row.message').count()).toBe(3)
  })
})
