import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Config } from '../../src/config.ts'
import { type DemoModel, startDemoModel } from '../../src/demo-model/server.ts'
import { finalOf, framesOf, ofKind, runsOf, toolsOf, transcriptOf } from '../support/runs.ts'
import { type ServerProcess, startServerProcess } from '../support/server-process.ts'
import { rounds } from '../support/soak.ts'

/** The model's server survives; ours is killed at a random moment of an answer with tools, and continues it. */
describe.each(['responses', 'chat-completions', 'anthropic'] as const)('an answer over %s', (protocol) => {
  let project: string
  let model: DemoModel
  let server: ServerProcess

  beforeEach(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-protocol-crash-'))
    model = await startDemoModel()
    server = await start()
  })
  afterEach(async () => {
    await server.kill()
    await model.close()
    rmSync(project, { recursive: true, force: true })
  })

  const start = () => {
    const config: Partial<Config> = {
      baseUrl: model.url,
      model: 'demo',
      protocol,
      store: protocol === 'responses',
    }
    return startServerProcess(project, { config })
  }

  it('[R3] [R4] ends exactly once, and runs no call twice, when the server is killed midway', {
    timeout: 600_000,
  }, async () => {
    for (let round = 0; round < rounds(2, 40); round++) {
      const { id } = await server.client.createConversation()
      await server.client.sendMessage(id, { content: 'my name is Ada' })
      const content = [
        '!think 5',
        `!write_to_file {"path":"${id}.txt","content":"one\\n"}`,
        '!+list_files {"path":"."}',
        '!wait 5',
        '!say 60',
      ].join('\n')
      await server.client.sendMessage(id, { content })
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 700))
      await server.kill()
      server = await start()
      await expect
        .poll(() => server.client.queue(id), { timeout: 60_000, interval: 50 })
        .toMatchObject({ active: null, items: [] })
      await server.client.sendMessage(id, { content: 'what is my name' })
      await expect
        .poll(() => server.client.queue(id), { timeout: 60_000, interval: 50 })
        .toMatchObject({ active: null, items: [] })
      const frames = await framesOf(server.client, id)
      expect(ofKind(frames, 'final').map(({ final }) => final.status)).toEqual([
        'completed',
        'completed',
        'completed',
      ])
      expect(finalOf(frames).response_text).toBe('Your name is Ada.')
      const [, run] = runsOf(transcriptOf(frames))
      const done = toolsOf(run).filter((tool) => tool.output !== undefined && tool.name === 'write_to_file')
      expect(done.length).toBeGreaterThan(0)
      expect(ofKind(frames, 'file.edit').length).toBeLessThanOrEqual(1)
    }
  })
})
