import type { Notice } from '../protocol/frames.ts'

/** Redacts secrets by the names of their keys: neither people nor disks need these values. */

export const REDACTED = '<redacted>'

const SECRET_WORDS = ['apikey', 'authorization', 'token', 'secret', 'password', 'passphrase', 'bearer']

export function isSecretKey(key: string): boolean {
  const name = key.toLowerCase().replaceAll(/[-_. ]/g, '')
  return SECRET_WORDS.some((word) => name.includes(word))
}

/** `input_tokens` and similar keys are counts. */
function isCountKey(key: string): boolean {
  return /tokens$/i.test(key)
}

function hides(key: string, value: unknown): boolean {
  if (value === null || typeof value === 'boolean' || !isSecretKey(key)) return false
  return !(isCountKey(key) && typeof value !== 'string')
}

/** A copy without secrets; each redacted value adds a notice with its path. */
export function redact(value: unknown, path: string, notices: Notice[]): unknown {
  if (Array.isArray(value)) return value.map((one, index) => redact(one, `${path}.${index}`, notices))
  if (typeof value !== 'object' || value === null) return value
  const copy: Record<string, unknown> = {}
  for (const [key, one] of Object.entries(value)) {
    const isHidden = hides(key, one)
    if (isHidden) notices.push(redactedNotice(`${path}.${key}`))
    const safe = isHidden ? REDACTED : redact(one, `${path}.${key}`, notices)
    // Defines the property, so that a key such as __proto__ is treated like any other.
    Object.defineProperty(copy, key, { value: safe, enumerable: true, writable: true, configurable: true })
  }
  return copy
}

/** Redacts a text if it is JSON. */
export function redactText(text: string): string {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return text
  }
  return typeof value === 'object' ? JSON.stringify(redact(value, '', [])) : text
}

function redactedNotice(path: string): Notice {
  return { type: 'redacted', path, message: 'Redacted because of its key name.' }
}

export interface TextRedactor {
  /** The next piece of JSON text, without the values of secret keys. */
  push(piece: string): string
  hasRedacted(): boolean
}

type Hiding = 'nothing' | 'string' | 'nested' | 'literal'

/**
 * Redacts JSON that arrives in pieces, such as a call's arguments while the model writes them: no piece may show what
 * the whole would not. Text that is not JSON passes unchanged.
 */
export function createTextRedactor(): TextRedactor {
  const containers: ('object' | 'array')[] = []
  let isInString = false
  let isEscaped = false
  let isKey = false
  let expectsKey = false
  let rawKey = ''
  let key = ''
  let hiding: Hiding = 'nothing'
  let hiddenDepth = 0
  let hasRedacted = false

  function hide(how: Hiding): string {
    hiding = how
    hasRedacted = true
    key = ''
    return `"${REDACTED}"`
  }

  function inString(char: string): string {
    if (isEscaped) isEscaped = false
    else if (char === '\\') isEscaped = true
    else if (char === '"') isInString = false
    if (isKey) {
      if (isInString) rawKey += char
      else endKey()
    }
    if (hiding === 'string' && !isInString) {
      hiding = 'nothing'
      return ''
    }
    return hiding === 'nothing' ? char : ''
  }

  function endKey(): void {
    isKey = false
    expectsKey = false
    try {
      key = JSON.parse(`"${rawKey}"`) as string
    } catch {
      key = rawKey
    }
  }

  function beginString(): string {
    isInString = true
    if (hiding !== 'nothing') return ''
    if (expectsKey && containers.at(-1) === 'object') {
      isKey = true
      rawKey = ''
      return '"'
    }
    if (isSecretKey(key)) return hide('string')
    key = ''
    return '"'
  }

  function open(char: '{' | '['): string {
    const isHidden = hiding === 'nothing' && isSecretKey(key) && !isCountKey(key)
    if (hiding === 'nested') hiddenDepth++
    if (hiding === 'nothing' && !isHidden) {
      containers.push(char === '{' ? 'object' : 'array')
      expectsKey = char === '{'
      key = ''
      return char
    }
    if (!isHidden) return ''
    hiddenDepth = 1
    return hide('nested')
  }

  function close(char: string): string {
    if (hiding === 'nested') {
      hiddenDepth--
      if (hiddenDepth === 0) hiding = 'nothing'
      return ''
    }
    hiding = 'nothing'
    containers.pop()
    key = ''
    return char
  }

  function outside(char: string): string {
    if (char === '"') return beginString()
    if (char === '{' || char === '[') return open(char)
    if (char === '}' || char === ']') return close(char)
    if (hiding === 'nested') return ''
    if (char === ',') {
      hiding = 'nothing'
      key = ''
      expectsKey = containers.at(-1) === 'object'
      return char
    }
    if (hiding === 'literal') return /\s/.test(char) ? ((hiding = 'nothing'), char) : ''
    if (/[-\d]/.test(char) && isSecretKey(key) && !isCountKey(key)) return hide('literal')
    return char
  }

  return {
    push(piece) {
      let text = ''
      for (const char of piece) text += isInString ? inString(char) : outside(char)
      return text
    },
    hasRedacted: () => hasRedacted,
  }
}
