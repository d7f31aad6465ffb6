import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestServer, type TestServer } from '../support/server.ts'
import { commandEnv } from '../support/state.ts'
import { openTestTerminal } from '../support/terminal.ts'

const cli = fileURLToPath(new URL('../../src/cli/waymark.ts', import.meta.url))
const ENTER = '\r'

describe('waymark chat in a terminal', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())

  async function open() {
    const { project } = server.config
    const command = [process.execPath, cli, 'chat', '--new', '--project', project]
    const terminal = openTestTerminal(command, { env: commandEnv(project) })
    await terminal.until((text) => /^> $/m.test(`${text}\n`) || text.includes('\n>'), 'the input line')
    return terminal
  }
  const inputRow = (rows: string[]) => rows.findLast((row) => row.startsWith('>'))

  it('keeps what is being typed in place while an answer streams', async () => {
    const terminal = await open()
    terminal.type(`count to 40${ENTER}`)
    await terminal.until(() => inputRow(terminal.rows())?.trim() === '>', 'an empty line')
    const seen = new Set<string>()
    for (const char of 'typed meanwhile') {
      terminal.type(char)
      await new Promise((resolve) => setTimeout(resolve, 40))
      seen.add(inputRow(terminal.rows()) ?? '')
    }
    await terminal.until((text) => text.includes('> typed meanwhile'), 'the typed text')
    for (const row of seen) expect('> typed meanwhile'.startsWith(row.trimEnd())).toBe(true)
    expect(terminal.caret().column).toBe('> typed meanwhile'.length)
    expect(terminal.text().split('typed meanwhile')).toHaveLength(2)
    // Ctrl-C clears the line first.
    terminal.type('\u0003')
    await terminal.until((text) => !text.includes('typed meanwhile'), 'an empty line')
    terminal.type(`/exit${ENTER}`)
    expect(await terminal.ended()).toBe(0)
  })

  it('sends pasted lines as one message, and styles Markdown', async () => {
    const terminal = await open()
    terminal.type('\u001b[200~my name is\rAda\u001b[201~')
    await terminal.until((text) => text.includes('> my name is\n  Ada'), 'both lines')
    terminal.type(ENTER)
    await terminal.until((text) => text.includes('my name is\nAda'), 'the message')
    await terminal.until((text) => /^agent /m.test(text), 'the answer')
    terminal.type('\u0004')
    expect(await terminal.ended()).toBe(0)
  })

  it('answers an approval with one key, but never with a key of a message', async () => {
    const terminal = await open()
    const { project } = server.config
    const call = (name: string) => `!run_command {"command":"touch ${name}"}`
    terminal.type(call('by-typing') + ENTER)
    await terminal.until((text) => text.includes('Allow run_command?'), 'the question')
    // Typed right when the question appears: it goes to the message.
    terminal.type('yes')
    await terminal.until((text) => text.includes('> yes'), 'the typed text')
    await new Promise((resolve) => setTimeout(resolve, 1500))
    expect(existsSync(join(project, 'by-typing'))).toBe(false)
    terminal.type('\u0003')
    await terminal.until((text) => text.includes('y allow once'), 'the keys')
    await new Promise((resolve) => setTimeout(resolve, 700))
    terminal.type('y')
    await terminal.until((text) => text.includes('allowed by'), 'the approval')
    await terminal.until(() => existsSync(join(project, 'by-typing')), 'the file')
    terminal.type(call('denied') + ENTER)
    await terminal.until((text) => text.split('y allow once').length > 1, 'the next question')
    await new Promise((resolve) => setTimeout(resolve, 700))
    terminal.type('r')
    await terminal.until((text) => text.includes('Reason: '), 'the reason')
    terminal.type(`not now${ENTER}`)
    await terminal.until((text) => text.includes('denied by'), 'the denial')
    expect(existsSync(join(project, 'denied'))).toBe(false)
    terminal.type('\u0004')
    expect(await terminal.ended()).toBe(0)
  })

  it('never takes words of a message for an answer, also after Esc', async () => {
    const terminal = await open()
    const { project } = server.config
    terminal.type(`!run_command {"command":"touch typed-away"}${ENTER}`)
    await terminal.until((text) => text.includes('y allow once'), 'the keys')
    await new Promise((resolve) => setTimeout(resolve, 700))
    for (const char of 'thanks, can you wait') {
      terminal.type(char)
      await new Promise((resolve) => setTimeout(resolve, 90))
    }
    await terminal.until((text) => text.includes('> thanks, can you wait'), 'the typed text')
    terminal.type('\u0003')
    await terminal.until((text) => !text.includes('thanks'), 'an empty line')
    terminal.type('\u001b')
    await new Promise((resolve) => setTimeout(resolve, 100))
    for (const char of 'so please') {
      terminal.type(char)
      await new Promise((resolve) => setTimeout(resolve, 90))
    }
    await terminal.until((text) => text.includes('so please'), 'the typed text')
    expect(terminal.text()).not.toContain('allowed by')
    expect(existsSync(join(project, 'typed-away'))).toBe(false)
    terminal.type('\u0003')
    terminal.type('\u0003')
    await terminal.until((text) => text.includes('cancelled') || text.includes('Stopped'), 'the stop')
    terminal.type('\u0004')
    expect(await terminal.ended()).toBe(0)
  })

  it('completes files and commands, and runs commands', async () => {
    const { project } = server.config
    writeFileSync(join(project, 'basket.txt'), 'apples\n')
    const terminal = await open()
    terminal.type('look at @bask')
    await terminal.until((text) => text.includes('  @basket.txt'), 'the file')
    terminal.type(`\t${ENTER}`)
    await terminal.until((text) => text.includes('· with basket.txt'), 'the named file')
    terminal.type('/ti')
    await terminal.until((text) => text.includes('/title  rename'), 'the command')
    terminal.type(`\tBaskets${ENTER}`)
    await terminal.until((text) => text.includes('Renamed.'), 'the new title')
    terminal.type(`!write_to_file {"path":"basket.txt","content":"pears\\n"}${ENTER}`)
    await terminal.until((text) => text.includes('modified basket.txt'), 'the edit')
    await terminal.until((text) => /returned: /.test(text), 'the end')
    terminal.type(`/undo${ENTER}`)
    await terminal.until((text) => text.includes('restored basket.txt'), 'the undo')
    terminal.type(`/nonsense${ENTER}`)
    await terminal.until((text) => text.includes('no such command'), 'the problem')
    terminal.type('\u0003')
    terminal.type(`/fork${ENTER}`)
    const newest = async () => (await server.client.listConversations({ limit: 1 })).items[0]
    await expect.poll(async () => (await newest())?.parent ?? null).not.toBeNull()
    const fork = await newest()
    await terminal.until((text) => text.includes(fork?.id ?? ''), 'the fork')
    terminal.type('\u0004')
    expect(await terminal.ended()).toBe(0)
  })
})
