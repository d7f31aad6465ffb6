import { expect, it } from 'vitest'
import { ask, finalOf } from '../../test/support/runs.ts'
import { startTestServer } from '../../test/support/server.ts'

it('[C2] sends snippets for a question about the code, and none for small talk', async () => {
  const server = await startTestServer({ embedder: 'local' })
  const write = (path: string, content: string) => `!write_to_file ${JSON.stringify({ path, content })}`
  const first = await server.client.createConversation()
  const files = [
    write('cart.ts', 'export function addToCart(item) {\n  return cart.push(item)\n}\n'),
    write('tax.ts', 'export const taxRate = 0.19\nexport const withTax = (price) => price * (1 + taxRate)\n'),
    write('greet.ts', 'export const text = "welcome to the shop"\n'),
  ]
  finalOf(await ask(server, first.id, files.join('\n')))
  const snippetsFor = async (question: string) => {
    const { id } = await server.client.createConversation()
    finalOf(await ask(server, id, question))
    const { parts } = await server.client.context(id)
    return parts.flatMap(({ origin }) => (origin.type === 'chunk' ? [origin.path] : []))
  }
  await expect
    .poll(() => snippetsFor('what is the tax rate?'), { timeout: 30_000, interval: 500 })
    .toContain('tax.ts')
  for (const question of [
    'ok',
    'hello again',
    'hello, thanks!',
    'Tell me about medieval poetry in Iceland',
  ]) {
    expect(await snippetsFor(question), question).toEqual([])
  }
  await server.close()
})
