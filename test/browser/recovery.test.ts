import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { launchBrowser, say, type TestBrowser, transcriptText, untilIdle } from '../support/browser.ts'
import { freePort } from '../support/free-port.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { type ServerProcess, startServerProcess } from '../support/server-process.ts'

describe('a page whose server is killed', () => {
  let browser: TestBrowser
  let project: string
  let port: number
  let server: ServerProcess
  beforeAll(async () => {
    browser = await launchBrowser()
    project = await mkdtemp(join(tmpdir(), 'waymark-project-'))
    port = await freePort()
    server = await startServerProcess(project, { port, config: { embedder: 'none' } })
  })
  afterAll(async () => {
    await server?.kill()
    await browser?.close()
    await rm(project, { recursive: true, force: true })
  })

  it('[P2] [P3] [R3] [L7] resumes the answer after a restart, with nothing lost or duplicated', async () => {
    const { id } = await server.client.createConversation({ title: 'Killed' })
    const { page, problems } = await browser.open(server, `/c/${id}`, { height: 3000 })
    await say(page, 'I am Ada')
    await page.getByText('Hello Ada.').waitFor()
    await untilIdle(page)
    await say(page, '!wait 40\n!say 150')
    await say(page, 'What is my name?')
    const answer = page.locator('.answer').nth(1)
    await expect.poll(async () => (await answer.innerText()).length).toBeGreaterThan(200)
    const before = await answer.innerText()

    await server.kill()
    await page.getByText('Connection lost. Reconnecting …').waitFor()
    // The transcript stays visible, and text written meanwhile stays in the composer.
    expect(await answer.innerText()).toContain(before)
    await page.getByRole('textbox', { name: 'Message' }).fill('written while it was away')
    await page.keyboard.press('Enter')
    await page.locator('.toast', { hasText: 'The server is not responding.' }).waitFor()
    expect(await page.getByRole('textbox', { name: 'Message' }).inputValue()).toBe(
      'written while it was away',
    )

    server = await startServerProcess(project, { port, config: { embedder: 'none' } })
    await page.getByText('Connection lost. Reconnecting …').waitFor({ state: 'detached', timeout: 30_000 })
    await page.getByText('Your name is Ada.').waitFor({ timeout: 30_000 })
    await untilIdle(page)
    expect(await transcriptText(page)).toContain(before)
    await page.keyboard.press('Enter')
    await page.locator('.said', { hasText: 'written while it was away' }).waitFor()
    await untilIdle(page)

    const end = await transcriptText(page)
    await page.reload()
    await page.locator('.said', { hasText: 'written while it was away' }).waitFor()
    await untilIdle(page)
    expect(await transcriptText(page)).toBe(end)
    expect(await page.locator('.said', { hasText: 'written while it was away' }).count()).toBe(1)
    // The only problems are requests made while the server was down.
    expect(problems.filter((problem) => !/ERR_|Failed to load resource/.test(problem))).toEqual([])
    await page.context().close()
  })
})

describe('a page whose server has lost its database', () => {
  it('[P3] shows why nothing can be saved until the database is back', { timeout: 240_000 }, async () => {
    const postgres = await startPostgres()
    const project = await mkdtemp(join(tmpdir(), 'waymark-project-'))
    const config = { embedder: 'none' as const, databaseUrl: `${postgres.url}/postgres` }
    const server = await startServerProcess(project, { config })
    const browser = await launchBrowser()
    try {
      const { id } = await server.client.createConversation({ title: 'Away' })
      const { page } = await browser.open(server, `/c/${id}`)
      await page.getByRole('textbox', { name: 'Message' }).waitFor()
      expect(await page.locator('.not-ready').count()).toBe(0)
      await postgres.whileAway(async () => {
        await page.locator('.not-ready').waitFor({ timeout: 120_000 })
        expect(await page.locator('.not-ready').innerText()).toMatch(/can’t save changes \(the store /)
      })
      await page.locator('.not-ready').waitFor({ state: 'detached', timeout: 30_000 })
      await say(page, 'I am Ada')
      await page.getByText('Hello Ada.').waitFor()
    } finally {
      await browser.close()
      await server.kill()
      await postgres.stop()
      await rm(project, { recursive: true, force: true })
    }
  })
})
