import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Notice } from '../protocol/frames.ts'
import { createTextRedactor, isSecretKey, redact } from './redact.ts'

describe('redaction', () => {
  it.each([
    'api_key',
    'apiKey',
    'X-Api-Key',
    'Authorization',
    'access_token',
    'client-secret',
    'PASSWORD',
    'bearerValue',
  ])('treats %s as a secret key', (key) => expect(isSecretKey(key)).toBe(true))

  it('removes secrets by the names of their keys, with a notice for each', () => {
    const notices: Notice[] = []
    const value = { user: 'me', password: 'p', deep: [{ api_key: ['k'], input_tokens: 3, token: null }] }
    expect(redact(value, 'output', notices)).toEqual({
      user: 'me',
      password: '<redacted>',
      deep: [{ api_key: '<redacted>', input_tokens: 3, token: null }],
    })
    expect(notices.map((notice) => notice.path)).toEqual(['output.password', 'output.deep.0.api_key'])
  })

  it('removes the same secrets from streamed text as from the whole text, wherever it is split', () => {
    const key = fc.constantFrom('path', 'token', 'api_key', 'pass"word', 'secret', 'total_tokens', 'a\\b', '')
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.string(),
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(key, tie('value'), { maxKeys: 3 }),
      ),
    }))
    fc.assert(
      fc.property(
        value,
        fc.array(fc.nat(5), { maxLength: 40 }),
        fc.constantFrom(0, 2),
        (json, cuts, indent) => {
          const text = JSON.stringify(json, null, indent)
          const redactor = createTextRedactor()
          let shown = ''
          let at = 0
          for (const length of cuts) {
            shown += redactor.push(text.slice(at, at + length))
            at += length
          }
          shown += redactor.push(text.slice(at))
          const notices: Notice[] = []
          expect(JSON.parse(shown)).toEqual(redact(json, '', notices))
          expect(redactor.hasRedacted()).toBe(notices.length > 0)
        },
      ),
      { numRuns: 500 },
    )
  })

  it('never shows a secret, even when text arrives character by character', () => {
    const redactor = createTextRedactor()
    const shown = '{"api_key":"sk-12345","path":"a"}'
      .split('')
      .map((char) => redactor.push(char))
      .join('')
    expect(shown).toBe('{"api_key":"<redacted>","path":"a"}')
  })
})
