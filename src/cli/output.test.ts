import { afterEach, describe, expect, it, vi } from 'vitest'
import { printable, printJson, printJsonText } from './output.ts'

const isTTY = Object.getOwnPropertyDescriptor(process.stdout, 'isTTY')

function printed(isTerminal: boolean, print: () => void): string {
  Object.defineProperty(process.stdout, 'isTTY', { value: isTerminal, configurable: true })
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  print()
  return String(log.mock.calls.at(-1)?.[0])
}

describe('what is printed', () => {
  afterEach(() => {
    vi.restoreAllMocks()
    if (isTTY) Object.defineProperty(process.stdout, 'isTTY', isTTY)
    else Reflect.deleteProperty(process.stdout, 'isTTY')
  })

  const hostile = { text: 'a\u001b[2J\u009b31m\u202eb\u007f', more: ['é', '🙂'] }

  it('[T11] JSON on a terminal holds no character that steers it, and means the same', () => {
    const text = printed(true, () => printJson(hostile))
    // oxlint-disable-next-line no-control-regex -- these are what is looked for
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
    expect(JSON.parse(text)).toEqual(hostile)
    expect(text).toContain('🙂')
    const line = printed(true, () => printJsonText('{"x":"\u009b\u2066"}'))
    expect(line).toBe('{"x":"\\u009b\\u2066"}')
  })

  it('[T11] JSON for a program is as it is', () => {
    expect(printed(false, () => printJson(hostile))).toBe(JSON.stringify(hostile, null, 2))
  })

  it('[T11] text on a terminal shows such characters as replaced', () => {
    expect(printable('a\u001b[31mb\u202e')).toBe('a\ufffd[31mb\ufffd')
  })
})
