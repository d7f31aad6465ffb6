import { afterEach, describe, expect, it, vi } from 'vitest'
import { printable, printJson, printJsonText } from './output.ts'

const isTTY = Object.getOwnPropertyDescriptor(process.stdout, 'isTTY')

function printed(isTerminal: boolean, print: () => void): string {
  Object.defineProperty(process.stdout, 'isTTY', { value: isTerminal, configurable: true })
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  print()
  return String(log.mock.calls.at(-1)?.[0])
}

describe('printed output', () => {
  afterEach(() => {
    vi.restoreAllMocks()
    if (isTTY) Object.defineProperty(process.stdout, 'isTTY', isTTY)
    else Reflect.deleteProperty(process.stdout, 'isTTY')
  })

  const hostile = { text: 'a\u001b[2J\u009b31m\u202eb\u007f', more: ['é', '🙂'] }

  it('[T11] escapes control characters in JSON on a terminal without changing its meaning', () => {
    const text = printed(true, () => printJson(hostile))
    // oxlint-disable-next-line no-control-regex -- the test looks for control characters
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
    expect(JSON.parse(text)).toEqual(hostile)
    expect(text).toContain('🙂')
    const line = printed(true, () => printJsonText('{"x":"\u009b\u2066"}'))
    expect(line).toBe('{"x":"\\u009b\\u2066"}')
  })

  it('[T11] leaves JSON for a program unchanged', () => {
    expect(printed(false, () => printJson(hostile))).toBe(JSON.stringify(hostile, null, 2))
  })

  it('[T11] replaces control characters in text on a terminal', () => {
    expect(printable('a\u001b[31mb\u202e')).toBe('a\ufffd[31mb\ufffd')
  })
})
