import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { createClient } from '../../src/client/index.ts'
import { launchBrowser } from '../support/browser.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))

it('[T15] serves several projects in one process, each with its own address, tokens and conversations', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'waymark-projects-'))
  for (const name of ['shop', 'docs']) mkdirSync(join(folder, name))
  const env = { ...process.env, XDG_STATE_HOME: join(folder, 'state') }
  const args = ['serve', '--port', '0', '--project', join(folder, 'shop'), '--also', join(folder, 'docs')]
  const server = spawn(process.execPath, [cli, ...args], { env })
  const browser = await launchBrowser()
  try {
    let printed = ''
    server.stdout.on('data', (bytes: Buffer) => {
      printed += bytes.toString()
    })
    const links = () => [...printed.matchAll(/http:\/\/\S+\/login\?code=\S+/g)].map(([link]) => link)
    await expect.poll(() => links().length).toBe(2)
    const [shopUrl = '', docsUrl = ''] = links().map((link) => new URL(link).origin)
    const projects = join(folder, 'state', 'waymark', 'projects')
    const tokenOf = (name: string) => {
      const own = readdirSync(projects).find((one) => one.startsWith(`${name}-`)) ?? ''
      return readFileSync(join(projects, own, 'token'), 'utf8').trim()
    }
    const shop = createClient({ url: shopUrl, token: tokenOf('shop') })
    const docs = createClient({ url: docsUrl, token: tokenOf('docs') })
    await shop.createConversation({ title: 'In the shop' })
    expect((await docs.listConversations()).items).toEqual([])
    const { items } = await shop.projects()
    expect(items.map(({ name, is_this }) => [name, is_this])).toEqual([
      ['shop', true],
      ['docs', false],
    ])
    // A token opens only its own project.
    const crossed = createClient({ url: docsUrl, token: tokenOf('shop') })
    await expect(crossed.about()).rejects.toMatchObject({ status: 401 })
    const other = items[1]?.id ?? ''
    await expect(shop.projectLink('none')).rejects.toMatchObject({ status: 404 })

    const { page, problems } = await browser.open({ url: shopUrl, token: tokenOf('shop') })
    await page.getByRole('combobox', { name: 'Project' }).selectOption(other)
    await page.waitForURL(`${docsUrl}/`)
    await expect.poll(() => page.getByRole('combobox', { name: 'Project' }).inputValue()).toBe(other)
    expect(await page.getByText('In the shop').count()).toBe(0)
    expect(problems).toEqual([])
  } finally {
    await browser.close()
    server.kill('SIGINT')
    await once(server, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
})
