import { secretForms } from '../protocol/secrets.ts'

export const REDACTED = '<redacted>'

/** A text that was removed from a shared file. */
export interface Redaction {
  /** What it seems to be. */
  what: string
  /** Enough of it to recognize it: its beginning and its length. */
  shown: string
  /** The number of places. */
  count: number
}

export interface Redactor {
  /** A copy of a value without secrets, at any depth. */
  redact<T>(value: T): T
  /** What was removed so far, the most frequent first. */
  redactions(): Redaction[]
}

/** The name of a value that is a secret. */
const NAME = 'api[_-]?key|secret|token|password|passwd|passphrase'
/** `name = value`, as in environment files, settings and headers, also in JSON inside a string. */
const ASSIGNED = new RegExp(
  `([A-Za-z0-9_.-]{0,40}(?:${NAME})[A-Za-z0-9_.-]{0,20}\\\\{0,4}["']?\\s{0,3}[=:]\\s{0,3}\\\\{0,4}["']?)([^\\s"',;&<>\\\\]{6,500})`,
  'gi',
)
const SECRET_KEY = new RegExp(`(?:${NAME})`, 'i')
const BEARER = /((?:Bearer|Basic)\s{1,3})([A-Za-z0-9._~+/=-]{12,2000})/gi
const URL_PASSWORD = /([a-z][a-z0-9+.-]{1,20}:\/\/[^\s:@/]{0,100}:)([^\s/]{1,200})(?=@)/gi
/** Numbers, paths, variables and words of code are no secrets. */
const NO_SECRET =
  /^(?:\d+|true|false|null|undefined|none|string|number|\$.*|\{.*|\(.*|\[.*|<.*|process\..*|\w+\(.*)$/i
const MAX_DEPTH = 100
const LEAST_SECRET = 6
/** Fields that tie frames together; they are not shown. */
const STRUCTURE = new Set(
  'schema kind conversation_id stream_id server_timestamp response_id item_id tool_call_id message_id item_type tool_type status type role encoding sha256 checkpoint_id output_ref'.split(
    ' ',
  ),
)

/** `also` are texts that the person wants removed, such as names. */
export function createRedactor(also: readonly string[] = []): Redactor {
  const found = new Map<string, Redaction>()
  const words = also.filter((word) => word !== '').sort((a, b) => b.length - a.length)
  const own = words.length === 0 ? null : new RegExp(words.map(escaped).join('|'), 'g')

  function note(what: string, secret: string): string {
    const key = `${what}\n${secret}`
    const known = found.get(key)
    if (known) known.count++
    else found.set(key, { what, shown: shownOf(secret), count: 1 })
    return REDACTED
  }

  function redactText(text: string): string {
    let safe = text
    for (const { name, pattern } of secretForms) {
      safe = safe.replace(new RegExp(pattern, 'g'), (secret) => note(name, secret))
    }
    const unlessPlain = (what: string) => (whole: string, before: string, secret: string) =>
      NO_SECRET.test(secret) ? whole : before + note(what, secret)
    safe = safe
      .replace(BEARER, unlessPlain('credential'))
      .replace(URL_PASSWORD, unlessPlain('password in an address'))
      .replace(ASSIGNED, unlessPlain('value of a secret'))
    return own
      ? safe.replace(own, (word) => (REDACTED.includes(word) ? word : note('your text', word)))
      : safe
  }

  function redactField(key: string, value: unknown, depth: number): unknown {
    if (typeof value !== 'string') return redact(value, depth)
    if (STRUCTURE.has(key)) return value
    const isNamed = SECRET_KEY.test(key) && value.length >= LEAST_SECRET && !/\s/.test(value)
    return isNamed && !NO_SECRET.test(value) ? note('value of a secret', value) : redact(value, depth)
  }

  function redact(value: unknown, depth: number): unknown {
    if (typeof value === 'string') return isImage(value) ? value : redactText(value)
    if (typeof value !== 'object' || value === null) return value
    if (depth > MAX_DEPTH) return REDACTED
    if (Array.isArray(value)) return value.map((one) => redact(one, depth + 1))
    const isBinary = (value as { encoding?: unknown }).encoding === 'base64'
    const entries = Object.entries(value).map(([key, one]) => [
      key,
      // Chunks of images are not text.
      isBinary && key === 'data' && isBase64(one) ? one : redactField(key, one, depth + 1),
    ])
    return Object.fromEntries(entries)
  }

  return {
    redact: <T>(value: T) => redact(value, 0) as T,
    redactions: () => [...found.values()].sort((a, b) => b.count - a.count),
  }
}

function isBase64(value: unknown): boolean {
  return typeof value === 'string' && /^[A-Za-z0-9+/=]*$/.test(value)
}

function isImage(text: string): boolean {
  return /^data:image\/[a-z+.-]{1,20};base64,[A-Za-z0-9+/=]*$/.test(text)
}

function shownOf(secret: string): string {
  const line = secret.replaceAll(/\s+/g, ' ')
  return `${line.slice(0, Math.min(4, Math.ceil(line.length / 4)))}… (${secret.length} characters)`
}

/** The text as a pattern that matches only itself. */
function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}
