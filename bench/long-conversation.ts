// Opening and scrolling a conversation of 5,000 messages in a browser, against one of two messages and against an idle page.
import type { Page } from 'playwright-core'
import type { ConversationId } from '../src/protocol/ids.ts'
import { launchBrowser } from '../test/support/browser.ts'
import { fillConversation } from '../test/support/long-conversation.ts'
import { startTestServer } from '../test/support/server.ts'
import { median, milliseconds, report, say, times } from './support/figure.ts'

const MESSAGES = 5000
const ROUNDS = 7

const server = await startTestServer()
const long = await filled('Long', MESSAGES)
const short = await filled('Short', 2)
const browser = await launchBrowser()
const { page } = await browser.open(server)

const opened: number[] = []
const openedShort: number[] = []
for (let round = 1; round <= ROUNDS; round++) {
  openedShort.push(await timeToUse(short, 1))
  opened.push(await timeToUse(long, MESSAGES / 2))
  say(`open: ${milliseconds(opened.at(-1) ?? 0)} against ${milliseconds(openedShort.at(-1) ?? 0)}`)
}
const scrolling: number[] = []
const idle: number[] = []
for (let round = 1; round <= ROUNDS; round++) {
  idle.push(await frameRate(page, 0))
  scrolling.push(await frameRate(page, 70))
  say(`frames a second: ${scrolling.at(-1)?.toFixed(0)} scrolling, ${idle.at(-1)?.toFixed(0)} idle`)
}
await browser.close()
await server.close()

report([
  {
    figure: 'page of 5,000 messages, until its end is shown and the composer accepts input; peer: 2 messages',
    ours: milliseconds(median(opened)),
    peer: milliseconds(median(openedShort)),
    ratio: times(median(opened) / median(openedShort)),
    wanted: 'under 1 s',
    met: median(opened) < 1000,
  },
  {
    figure: 'frames a second while scrolling up as earlier events load; peer: the idle page',
    ours: median(scrolling).toFixed(0),
    peer: median(idle).toFixed(0),
    ratio: times(median(scrolling) / median(idle)),
    wanted: 'at least 50',
    met: median(scrolling) >= 50,
  },
])

async function filled(title: string, messages: number): Promise<ConversationId> {
  const id = (await server.client.createConversation({ title })).id as ConversationId
  await fillConversation(server.ledger, id, messages)
  return id
}

async function timeToUse(conversation: ConversationId, answers: number): Promise<number> {
  await page.goto('about:blank')
  const begun = performance.now()
  await page.goto(`${server.url}/c/${conversation}`, { waitUntil: 'commit' })
  await page.getByText(`Answer ${answers}:`).first().waitFor()
  const field = page.getByRole('textbox', { name: 'Message' })
  await field.fill('x')
  const time = performance.now() - begun
  await field.fill('')
  return time
}

/** Frames per second while scrolling up by `step` pixels per frame. */
async function frameRate(on: Page, step: number): Promise<number> {
  return await on.evaluate(async (pixels) => {
    const list = document.querySelector('.transcript')
    if (!list) return 0
    const begun = performance.now()
    let frames = 0
    while (performance.now() - begun < 3000) {
      if (pixels > 0) list.dispatchEvent(new WheelEvent('wheel', { bubbles: true, deltaY: -pixels }))
      list.scrollTop -= pixels
      await new Promise(requestAnimationFrame)
      frames++
    }
    return frames / ((performance.now() - begun) / 1000)
  }, step)
}
