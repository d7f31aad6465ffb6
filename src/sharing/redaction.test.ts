import { describe, expect, it } from 'vitest'
import type { AnyFrame } from '../protocol/frames.ts'
import { joinedFrames } from './joined-frames.ts'
import { createRedactor } from './redaction.ts'

const delta = (event_id: number, text: string, more: object = {}) =>
  ({
    kind: 'message.delta',
    event_id,
    stream_id: 'run_1',
    item_id: 'msg_1',
    output_index: 0,
    content_index: 0,
    delta: text,
    ...more,
  }) as unknown as AnyFrame

describe('redaction of shared conversations', () => {
  it.each([
    ['an API key', `the key is sk-ant-${'x'.repeat(30)}.`, 'the key is <redacted>.'],
    ['a GitHub token', `ghp_${'a1'.repeat(18)} is mine`, '<redacted> is mine'],
    [
      'a private key',
      '-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest',
      '<redacted>\nrest',
    ],
    ['an assignment', 'export DB_PASSWORD="correct horse"', 'export DB_PASSWORD="<redacted> horse"'],
    ['a header', 'Authorization: Bearer abcdefghijklmnop', 'Authorization: Bearer <redacted>'],
    ['an address', 'postgres://ada:lovelace@db/shop', 'postgres://ada:<redacted>@db/shop'],
    ['JSON', '{"api_key": "abcdef123456", "tokens": 12}', '{"api_key": "<redacted>", "tokens": 12}'],
  ])('removes %s', (_name, text, expected) => {
    const redactor = createRedactor()
    expect(redactor.redact({ deep: [text] })).toEqual({ deep: [expected] })
    expect(redactor.redactions()).toHaveLength(1)
    expect(JSON.stringify(redactor.redactions())).not.toContain(text)
  })

  it.each([
    'const token = readToken(file)',
    'input_tokens: 123456789',
    'password = process.env.PASSWORD',
    'secret: string',
    'http://localhost:8080/a@b',
  ])('keeps code and counts: %s', (text) => {
    expect(createRedactor().redact(text)).toBe(text)
  })

  it('keeps images, and removes texts that the person names', () => {
    const image = `data:image/png;base64,${'AKIAABCDEFGHIJKLMNOP'.repeat(3)}`
    expect(createRedactor(['Ada', '']).redact([image, 'Ada and Bob'])).toEqual([image, '<redacted> and Bob'])
  })

  const GH = `ghp_${'a1'.repeat(18)}`
  it.each([
    ['in parsed arguments', { arguments_json: { api_key: 'abcdef123456', password: 'correcthorse' } }],
    ['after an escape in JSON text', `{"content":"x\\n${GH}\\tsk-ant-${'x'.repeat(30)}"}`],
    ['in escaped quotes', '{\\"api_key\\": \\"abcdef123456\\"}'],
    ['after a color', `\u001b[32m${GH}`],
    ['in a diff', '------BEGIN RSA PRIVATE KEY-----\n-MIIEabcdef123456\n------END RSA PRIVATE KEY-----'],
    ['in a key that was cut', '-----BEGIN PRIVATE KEY-----\nMIIEabcdef123456\nabcdef123456'],
    [
      'in an encrypted key',
      '-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: x\n\nabcdef123456\n-----END RSA PRIVATE KEY-----',
    ],
    ['in a field that only claims to be binary', { encoding: 'base64', data: `not ${GH}` }],
    ['without a user', 'redis://:abcdef123456@cache'],
    ['with an @ in the password', 'postgres://u:abc@abcdef123456@db'],
    ['in lower case', 'authorization: bearer abcdef123456abcdef'],
  ])('removes a secret %s', (_name, value) => {
    const safe = JSON.stringify(createRedactor().redact(value))
    for (const secret of ['abcdef123456', 'correcthorse', GH, 'sk-ant-x']) expect(safe).not.toContain(secret)
  })

  it('removes the longest of several texts, and keeps the structure of frames', () => {
    const redactor = createRedactor(['Ada', 'Ada Lovelace', 'tool', 'e'])
    const frame = { kind: 'tool.output', tool_call_id: 'tool_1', text: 'Ada Lovelace' }
    expect(redactor.redact(frame)).toEqual({ ...frame, text: '<redacted>' })
  })

  it('finds a secret that was streamed in pieces, also between pieces of another part', () => {
    const key = `sk-proj-${'k'.repeat(40)}`
    const frames = [
      delta(1, `It is ${key.slice(0, 10)}`),
      delta(2, 'another', { content_index: 1 }),
      delta(3, key.slice(10)),
      delta(4, ' part', { content_index: 1 }),
    ]
    const safe = createRedactor().redact(joinedFrames(frames))
    expect(safe.map((frame) => (frame as { delta?: unknown }).delta)).toEqual([
      'It is <redacted>',
      'another part',
    ])
  })

  it('takes no longer than the text is long', () => {
    const texts = [
      'a.'.repeat(100_000),
      'token'.repeat(40_000),
      'x:'.repeat(100_000),
      `eyJ${'a'.repeat(200_000)}`,
    ]
    const started = performance.now()
    createRedactor().redact(texts)
    expect(performance.now() - started).toBeLessThan(10_000)
  })
})
