import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ask } from '../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../test/support/server.ts'

describe('reading attachments back', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())

  const newConversation = async () => (await server.client.createConversation()).id
  const textOf = (id: string, sha256: string) => server.client.attachment(id, sha256)
  const notThere = { code: 'attachment_not_found' }

  it('[C9] serves an attachment on every line that has its message, and on no other', async () => {
    const id = await newConversation()
    const content = 'The door must be green.\nNo other way. é 🚪\n'
    await ask(server, id, 'read this', { attachments: [{ name: 'spec.md', content }] })
    const { entries } = await server.client.transcriptAt(id, 1000)
    const [message] = entries.flatMap((entry) => (entry.type === 'message' ? entry : []))
    const { sha256 = '' } = message?.attachments[0] ?? {}
    const wanted = { name: 'spec.md', sha256, bytes: Buffer.byteLength(content), content }
    expect(await textOf(id, sha256)).toEqual(wanted)
    const fork = await server.client.fork(id)
    await server.client.deleteMessage(id, message?.messageId ?? '')
    await server.client.collect({ now: true })
    expect(await textOf(fork.id, sha256)).toEqual(wanted)
    const before = await server.client.fork(fork.id, { message_id: message?.messageId ?? '' })
    for (const other of [id, before.id, await newConversation()]) {
      await expect(textOf(other, sha256)).rejects.toMatchObject(notThere)
    }
  })

  it('[R1] [C9] lists the files and attachments of a waiting message, and serves their text', async () => {
    const id = await newConversation()
    await server.client.sendMessage(id, { content: '!wait 50\n!say 2000' })
    const attachments = [{ name: 'spec.md', content: 'round baskets' }]
    await server.client.sendMessage(id, { content: 'read', active_files: ['a.txt'], attachments })
    const { items } = await server.client.queue(id)
    expect(items).toMatchObject([
      { content: 'read', active_files: ['a.txt'], attachments: [{ name: 'spec.md', bytes: 13 }] },
    ])
    const sha256 = items[0]?.attachments[0]?.sha256 ?? ''
    expect(await textOf(id, sha256)).toMatchObject({ content: 'round baskets' })
    await server.client.removeQueued(id, items[0]?.run_id ?? '')
    await expect(textOf(id, sha256)).rejects.toMatchObject(notThere)
    await server.client.stop(id)
  })
})
