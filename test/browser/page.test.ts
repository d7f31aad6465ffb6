import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { allowCall, focused, say, untilIdle, withBrowser } from '../support/browser.ts'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

describe('accessibility and loading of the page', () => {
  const { server, open, start } = withBrowser()
  const view = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).click()

  /** Violations that axe rates serious or critical. */
  async function seriousFlaws(page: Page): Promise<string[]> {
    await page.evaluate(axe)
    const { violations } = await page.evaluate(() =>
      (
        globalThis as unknown as {
          axe: { run(): Promise<{ violations: { impact: string; id: string; nodes: { html: string }[] }[] }> }
        }
      ).axe.run(),
    )
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`)
  }

  async function withEverything(page: Page): Promise<void> {
    await say(
      page,
      [
        '!think 5',
        '!write_to_file {"path":"notes.md","content":"# Notes\\n"}',
        '!run_command {"command":"ls"}',
        `!say ${JSON.stringify('# Title\n\n- [x] done\n\n```ts\nconst a = 1 // one\n```\n\n| a | b |\n|-|-|\n| 1 | 2 |')}`,
      ].join('\n'),
    )
    await page.getByRole('button', { name: 'Allow' }).waitFor()
  }

  for (const theme of ['light', 'dark'] as const) {
    it(`[P8] has no serious axe violations in any view (${theme})`, async () => {
      const { page } = await start(`Axe ${theme}`, { theme })
      expect(await seriousFlaws(page)).toEqual([])
      await withEverything(page)
      expect(await seriousFlaws(page)).toEqual([])
      await allowCall(page)
      await untilIdle(page)
      await page.getByRole('button', { name: 'Thought' }).click()
      expect(await seriousFlaws(page)).toEqual([])
      await page.getByRole('button', { name: 'Delete from here' }).click()
      expect(await seriousFlaws(page)).toEqual([])
      await page.keyboard.press('Escape')
      await page.getByRole('button', { name: 'Edit and fork' }).click()
      expect(await seriousFlaws(page)).toEqual([])
      await page.keyboard.press('Escape')
      for (const [name, sign] of [
        ['Changes', 'notes.md'],
        ['Timeline', 'Files now'],
        ['Context', 'What the model was sent'],
        ['Forks', 'This conversation has no forks'],
      ] as const) {
        await view(page, name)
        await page.getByText(sign).first().waitFor()
        expect(await seriousFlaws(page)).toEqual([])
      }
      await page.keyboard.press('?')
      await page.getByRole('dialog').waitFor()
      expect(await seriousFlaws(page)).toEqual([])
      await page.goto(`${server().url}/`)
      await page.getByRole('heading', { name: 'What should the agent do?' }).waitFor()
      expect(await seriousFlaws(page)).toEqual([])
    })
  }

  it('[P8] supports every action by keyboard and lists the shortcuts on ?', async () => {
    const { page } = await start('Keys')
    await page.keyboard.press('Escape')
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).getByText('New conversation').waitFor()
    await page.keyboard.press('Escape')
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0)

    await page.getByRole('textbox', { name: 'Message' }).blur()
    await page.keyboard.press('c')
    await page.keyboard.type('!run_command {"command":"echo by keys"}')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Allow' }).waitFor()
    // Escape leaves the composer, so the button can be focused.
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Allow' }).focus()
    await page.keyboard.press('Enter')
    await untilIdle(page)
    await page.getByRole('button', { name: 'Delete from here' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    // Closing the dialog restores focus.
    await expect.poll(() => focused(page)).toBe('Delete from here')
    for (const [key, name] of [
      ['2', 'Changes'],
      ['3', 'Timeline'],
      ['4', 'Context'],
      ['5', 'Forks'],
      ['1', 'Transcript'],
    ] as const) {
      await page.keyboard.press(key)
      await expect.poll(() => page.locator('.tabs [aria-current]').innerText()).toBe(name)
    }
    await page.keyboard.press('t')
    await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe('light')
    await page.keyboard.press('t')
    await page.reload()
    await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe('dark')
  })

  it('[P8] offers the actions of a message as a menu on a touch screen', async () => {
    const { id } = await server().client.createConversation({ title: 'Touch' })
    await server().client.sendMessage(id, { content: 'hello' })
    const page = await open(`/c/${id}`, { width: 390, height: 800, isTouch: true })
    const menu = page.getByRole('button', { name: 'Message actions' })
    await menu.waitFor()
    expect(await page.getByRole('button', { name: 'Fork from here' }).isVisible()).toBe(false)
    await menu.tap()
    await page.getByRole('button', { name: 'Fork from here' }).tap()
    await page.getByRole('dialog').getByRole('button', { name: 'Fork', exact: true }).tap()
    await expect.poll(() => page.url()).not.toContain(id)
  })

  it('[P8] allows a call, approves and restores by touch on a phone-sized screen', async () => {
    const { id } = await server().client.createConversation({ title: 'Phone' })
    const file = join(server().config.project, 'phone.txt')
    const page = await open(`/c/${id}`, { width: 390, height: 800, isTouch: true })
    await say(page, '!run_command {"command":"echo one > phone.txt"}')
    await allowCall(page, 'tap')
    await untilIdle(page)
    expect(readFileSync(file, 'utf8')).toBe('one\n')
    await page.getByRole('link', { name: 'Changes', exact: true }).tap()
    await page.getByRole('button', { name: 'Approve …' }).tap()
    await page.getByRole('dialog').getByRole('button', { name: 'Approve', exact: true }).tap()
    await page.getByText('Nothing has changed since the last approval.').waitFor()
    await page.locator('.toast').getByRole('button', { name: 'Close' }).tap()
    await page.getByRole('link', { name: 'Transcript', exact: true }).tap()
    // A person scrolls up to the message; without that, the view stays at the end.
    await page.mouse.move(200, 300)
    await expect
      .poll(async () => {
        await page.mouse.wheel(0, -1000)
        return await page.locator('.row.message').first().isVisible()
      })
      .toBe(true)
    await page.getByRole('button', { name: 'Message actions' }).first().tap()
    await page.getByRole('button', { name: 'Restore files to this point' }).tap()
    await page.getByRole('dialog').getByRole('button', { name: 'Restore files', exact: true }).tap()
    await expect.poll(() => existsSync(file)).toBe(false)
  })

  it('[P8] fits a narrow screen without overflow and opens the list as an overlay', async () => {
    const { page } = await start('Narrow', { width: 380, height: 720 })
    await withEverything(page)
    await allowCall(page)
    await untilIdle(page)
    const isTooWide = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth)
    for (const name of ['Transcript', 'Changes', 'Timeline', 'Context', 'Forks']) {
      await view(page, name)
      await page.waitForTimeout(300)
      expect(await isTooWide(), name).toBe(false)
    }
    await page.getByRole('button', { name: 'Conversations' }).click()
    await page
      .getByRole('navigation', { name: 'Conversations' })
      .getByRole('link', { name: /Narrow/ })
      .click()
    await expect.poll(() => page.locator('.page.list-open').count()).toBe(0)
    expect(await seriousFlaws(page)).toEqual([])
  })

  it('transfers at most 250 KB on first load', async () => {
    const { id } = await server().client.createConversation({ title: 'Size' })
    await server().client.sendMessage(id, { content: `!say ${JSON.stringify('```ts\nconst a = 1\n```')}` })
    const page = await open('/login')
    const session = await page.context().newCDPSession(page)
    await session.send('Network.enable')
    await session.send('Network.setCacheDisabled', { cacheDisabled: true })
    let bytes = 0
    session.on('Network.loadingFinished', ({ encodedDataLength }) => {
      bytes += encodedDataLength
    })
    await page.goto(`${server().url}/c/${id}`)
    // Includes resources loaded on demand.
    await page.locator('.hljs-keyword').waitFor()
    await page.waitForTimeout(500)
    expect(bytes).toBeGreaterThan(100 * 1024)
    expect(bytes).toBeLessThanOrEqual(250 * 1024)
  })

  it('[T10] signs a browser in once with the link from `waymark serve`, without a cookie', async () => {
    const page = await open('/')
    const context = await page.context().browser()?.newContext()
    const other = await context?.newPage()
    await other?.goto(server().loginUrl)
    await other?.getByRole('heading', { name: 'What should the agent do?' }).waitFor()
    // The link is used up, but the browser is already signed in.
    await other?.goto(server().loginUrl)
    await other?.getByRole('heading', { name: 'What should the agent do?' }).waitFor()
    expect(await context?.cookies()).toEqual([])
    await other?.evaluate(() => localStorage.clear())
    await other?.goto(`${server().url}/`)
    await other?.getByRole('heading', { name: 'Sign in' }).waitFor()
    await other?.goto(server().loginUrl)
    await other?.getByRole('heading', { name: 'This link has already been used' }).waitFor()
    await other?.getByLabel('Token').fill(server().token)
    await other?.getByRole('button', { name: 'Sign in' }).click()
    await other?.getByRole('heading', { name: 'What should the agent do?' }).waitFor()
    await context?.close()
  })
})
