import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { ask } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'

const SECRET = 'hunter2-hunter2'

/** Untracked files that git reports as changed and no message names. */
const withheld = {
  '.env': `PASSWORD=${SECRET}`,
  'config/.env.local': `PASSWORD=${SECRET}`,
  '.aws/credentials': `aws_secret_access_key=${SECRET}`,
  'deploy.pem': `-----BEGIN PRIVATE KEY-----\n${SECRET}\n`,
  id_ed25519: `-----BEGIN OPENSSH PRIVATE KEY-----\n${SECRET}\n`,
  'credentials.json': `{"password": "${SECRET}"}`,
  'infra/terraform.tfstate': `{"value": "${SECRET}"}`,
  'src/client.ts': `const key = 'ghp_${'a'.repeat(36)}' // ${SECRET}`,
}

describe('secrets in the project', () => {
  let project: string
  let model: ModelServer
  let server: TestServer
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(project, path)), { recursive: true })
    writeFileSync(join(project, path), text)
  }

  beforeAll(async () => {
    project = mkdtempSync(join(tmpdir(), 'waymark-secrets-'))
    execFileSync('git', ['init', '-q'], { cwd: project })
    for (const [path, text] of Object.entries(withheld)) write(path, text)
    write('src/plain.ts', 'export const plain = 1\n')
    model = await startModelServer([])
    server = await startTestServer({ project, baseUrl: model.url, apiKey: 'k' })
  })
  afterAll(async () => {
    await server.close()
    await model.close()
    rmSync(project, { recursive: true, force: true })
  })

  it('[T4] are withheld from the model and listed with the reason in the context', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'hello')
    const sent = JSON.stringify(model.requests.at(-1))
    expect(sent).not.toContain(SECRET)
    expect(sent).toContain('export const plain = 1')
    const { parts } = await (await server.call(`/conversations/${id}/context`)).json()
    const skipped = parts.filter(
      (part: { origin: { type: string }; sent: boolean }) => part.origin.type === 'file' && !part.sent,
    )
    expect(skipped.map((part: { origin: { path: string } }) => part.origin.path).sort()).toEqual(
      Object.keys(withheld).sort(),
    )
    for (const { why } of skipped) expect(why).toMatch(/^(hidden|may contain|seems to contain)/)
  })

  it('[T4] are sent to the model when the person names them', async () => {
    const { id } = await server.client.createConversation()
    await ask(server, id, 'look', { active_files: ['.env', 'deploy.pem'] })
    const sent = JSON.stringify(model.requests.at(-1))
    expect(sent).toContain(`PASSWORD=${SECRET}`)
    expect(sent).toContain('BEGIN PRIVATE KEY')
  })
})
