// Takes the screenshots in docs/images/: the page's main views, light and dark, with a scripted model. `npm run screenshots`.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import type { Client } from '../src/client/index.ts'
import { launchBrowser } from '../test/support/browser.ts'
import { calls, item, message, response, says, startModelServer } from '../test/support/model-server.ts'
import { startTestServer } from '../test/support/server.ts'

const images = fileURLToPath(new URL('../docs/images/', import.meta.url))
const project = join(mkdtempSync(join(tmpdir(), 'waymark-pictures-')), 'shop')

const files = {
  'README.md': '# Shop\n\nSells baskets.\n',
  'package.json': '{\n  "name": "shop",\n  "type": "module"\n}\n',
  'src/basket.ts': [
    'export interface Basket {',
    '  items: Item[]',
    '}',
    '',
    'export function total(basket: Basket): number {',
    '  return basket.items.reduce((sum, item) => sum + item.price, 0)',
    '}',
    '',
  ].join('\n'),
  'src/item.ts': 'export interface Item {\n  name: string\n  price: number\n}\n',
}

const ANSWER = `The total now **rounds to cents** and takes a discount:

| basket | before | after |
| --- | ---: | ---: |
| three at 0.10 | 0.30000000000000004 | 0.3 |
| with 10 % off | – | 0.27 |

\`\`\`ts
const cents = basket.items.reduce((sum, item) => sum + Math.round(item.price * 100), 0)
return Math.round(cents * (1 - discount)) / 100
\`\`\`

Still to do:

- [x] round to cents
- [ ] refuse discounts above 100 %`

/** The model's responses, request by request. */
const script = {
  fix: [
    calls('read_file', { path: 'src/basket.ts' }),
    calls('replace_in_file', {
      path: 'src/basket.ts',
      search: [
        'export function total(basket: Basket): number {',
        '  return basket.items.reduce((sum, item) => sum + item.price, 0)',
      ].join('\n'),
      replace: [
        'export function total(basket: Basket, discount = 0): number {',
        '  const cents = basket.items.reduce((sum, item) => sum + Math.round(item.price * 100), 0)',
        '  return Math.round(cents * (1 - discount)) / 100',
      ].join('\n'),
    }),
    response([
      ...item(0, { id: 'rs_1', type: 'reasoning', summary: [] }, [
        {
          type: 'response.reasoning_summary_part.added',
          summary_index: 0,
          part: { type: 'summary_text', text: '' },
        },
        {
          type: 'response.reasoning_summary_text.delta',
          summary_index: 0,
          delta: 'Floating point; count in cents.',
        },
      ]),
      ...message(1, ANSWER),
    ]),
  ],
  money: [
    calls('write_to_file', { path: 'src/money.ts', content: 'export type Money = { cents: number }\n' }),
    says('I added a `Money` type instead: amounts are whole cents everywhere, and `src/money.ts` says so.'),
  ],
  bigInt: [says('BigInt would do as well, but JSON has none: each amount would have to be written as text.')],
  next: [says('Next I would use it in the basket, and then in the invoices.')],
  build: [says('The type check takes most of it. Let it run beside the bundler, not before it.')],
  test: [
    calls('write_to_file', {
      path: 'src/basket.test.ts',
      content: [
        "import { total } from './basket.ts'",
        '',
        "const basket = { items: [0.1, 0.1, 0.1].map((price) => ({ name: 'tie', price })) }",
        'console.assert(total(basket) === 0.3)',
        'console.assert(total(basket, 0.1) === 0.27)',
        '',
      ].join('\n'),
    }),
    calls('run_command', { command: 'node src/basket.test.ts && echo "all good"' }),
  ],
}

for (const [path, content] of Object.entries(files)) {
  mkdirSync(join(project, path, '..'), { recursive: true })
  writeFileSync(join(project, path), content)
}
execFileSync('git', ['init', '-q', project])
const { fix, money, bigInt, next, build, test } = script
const parts = [fix, money, bigInt, next, build, test].flat().map((events) => ({ events }))
const model = await startModelServer(parts)
const server = await startTestServer({
  project,
  baseUrl: model.url,
  apiKey: 'none',
  model: 'scripted-model',
})
const browser = await launchBrowser()
mkdirSync(images, { recursive: true })
try {
  const { client } = server
  const { id, fork } = await act(client)
  for (const theme of ['light', 'dark'] as const) {
    const { page, context } = await browser.open(server, `/c/${id}`, { theme, width: 1280, height: 800 })
    const picture = (name: string) => page.screenshot({ path: join(images, `${name}-${theme}.png`) })
    await show(page, 'Transcript', page.getByRole('button', { name: 'Allow' }))
    await picture('approval')
    await page.getByRole('region', { name: 'Transcript' }).hover()
    await page.mouse.wheel(0, -4000)
    await page.locator('.code-block .hljs-keyword').first().waitFor()
    await page.waitForTimeout(700)
    await picture('transcript')
    await show(page, 'Changes', page.locator('.changed-file').first())
    await picture('changes')
    await show(page, 'Timeline', page.locator('.paths button').first())
    const events = (await client.events(id, { limit: 1000 })).items
    const edit = events.find((event) => event.kind === 'file.edit')
    await page.getByRole('slider', { name: 'Event' }).fill(String(edit?.event_id ?? 1))
    await page.locator('.paths button', { hasText: 'added later' }).waitFor()
    await page.locator('.paths button', { hasText: 'src/basket.ts' }).click()
    await page.locator('.file-text .hljs-keyword').first().waitFor()
    await page.waitForTimeout(500)
    await picture('timeline')
    await show(page, 'Context', page.locator('.bar').first())
    await picture('context')
    await page.goto(`${server.url}/c/${id}/branches?with=${fork}`)
    await page.locator('.sides').waitFor()
    await page.waitForTimeout(300)
    await picture('branches')
    await page.goto(server.url)
    await page.getByText('Recent conversations').waitFor()
    await page.waitForTimeout(300)
    await picture('home')
    await context.close()
  }
  const { page } = await browser.open(server, `/c/${id}`, { width: 400, height: 800 })
  await page.getByRole('button', { name: 'Allow' }).waitFor()
  await page.waitForTimeout(500)
  await page.screenshot({ path: join(images, 'narrow.png') })
} finally {
  await browser.close()
  await server.close()
  await model.close()
  rmSync(join(project, '..'), { recursive: true, force: true })
}
console.log('wrote docs/images/')

/** Creates the shown conversations: a family of three, one of which is waiting for approval. */
async function act(client: Client): Promise<{ id: string; fork: string }> {
  const { id } = await client.createConversation({ title: 'Exact totals' })
  await send(
    client,
    id,
    'Three items at 0.10 come to 0.30000000000000004. Make the total exact, and let it take a discount.',
  )
  const fork = await client.fork(id, { title: 'With a Money type', files: 'copy' })
  await send(client, fork.id, 'Could a type of its own prevent that for good?')
  const second = await client.fork(fork.id, { title: 'With BigInt' })
  await send(client, second.id, 'And BigInt?')
  await send(client, fork.id, 'I like it. What would be next?')
  const other = await client.createConversation({ title: 'Why is the build slow?' })
  await send(client, other.id, 'The build takes a minute. Why?')
  await client.sendMessage(id, { content: 'Add a test for it, and run it.' })
  await client.sendMessage(id, { content: 'Then write down what you have done in README.md.' })
  for (;;) {
    const asked = (await client.events(id, { limit: 1000 })).items.some(
      (event) => event.kind === 'tool.approval',
    )
    if (asked) return { id, fork: fork.id }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

async function send(client: Client, id: string, content: string): Promise<void> {
  await client.sendMessage(id, { content })
  for (;;) {
    const { active, items } = await client.queue(id)
    if (active === null && items.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

async function show(page: Page, view: string, sign: ReturnType<Page['locator']>): Promise<void> {
  await page.getByRole('link', { name: view, exact: true }).click()
  await sign.waitFor()
  await page.waitForTimeout(500)
}
