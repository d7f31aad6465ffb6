import { styled } from './output.ts'

/**
 * Markdown for a terminal, styled while it streams: what was written is never changed later. Emphasis, code, headings, lists,
 * quotes and fences are styled; everything else stays as it was written.
 */
export interface MarkdownStyler {
  write(text: string): string
  /** Returns what was held back until more text came. */
  end(): string
}

type LineKind = 'text' | 'heading' | 'quote' | 'code'

const MARKS = '*`'

export function createMarkdownStyler(): MarkdownStyler {
  let isFenced = false
  let kind: LineKind | null = null
  let isStrong = false
  let isEmphasis = false
  let isCode = false
  /** Text whose meaning depends on what follows. */
  let held = ''
  /** The character before. */
  let last = ''

  const codes = () => [
    ...(isStrong || kind === 'heading' ? ['1'] : []),
    ...(isEmphasis ? ['3'] : []),
    ...(kind === 'quote' ? ['2'] : []),
    ...(isCode || kind === 'code' ? ['36'] : []),
  ]
  const shown = (text: string) =>
    text === '' || codes().length === 0 ? text : styled(codes().join(';'), text)

  function endLine(): string {
    // Marks that were not closed end with their paragraph.
    const rest = flush('\n')
    kind = null
    last = ''
    isCode = false
    isStrong = false
    isEmphasis = false
    return `${rest}\n`
  }

  /** Decides what kind of line begins; null while its first characters don't tell. */
  function begin(line: string): { kind: LineKind; shown: string; rest: string } | 'fence' | null {
    const fence = /^ {0,3}(```|~~~)/.test(line)
    if (fence) return 'fence'
    if (isFenced) {
      if (/^ {0,3}(`{0,2}|~{0,2})$/.test(line)) return null
      return { kind: 'code', shown: styled('2', '  │ '), rest: line }
    }
    const [, heading] = /^(#{1,6} )/.exec(line) ?? []
    if (heading !== undefined) return { kind: 'heading', shown: '', rest: line.slice(heading.length) }
    const [, indent, bullet] = /^( *)([-*+] )/.exec(line) ?? []
    if (bullet !== undefined) {
      return { kind: 'text', shown: `${indent}• `, rest: line.slice((indent ?? '').length + 2) }
    }
    if (line.startsWith('> ')) return { kind: 'quote', shown: styled('2', '│ '), rest: line.slice(2) }
    if (/^( *[-*+]?|#{1,6}|>|[`~]{1,2}| {0,3}[`~]{0,2})$/.test(line)) return null
    return { kind: 'text', shown: '', rest: line }
  }

  /** Styles a complete piece of a line. `next` is the character that follows. */
  function flush(next: string): string {
    const text = held
    held = ''
    return kind === null ? text : inline(text, next)
  }

  function inline(text: string, next: string): string {
    if (kind === 'code') return shown(text)
    let out = ''
    let plain = ''
    const end = () => {
      out += shown(plain)
      plain = ''
    }
    for (let at = 0; at < text.length; at++) {
      const char = text[at] ?? ''
      const isDouble = char === '*' && text[at + 1] === '*'
      const following = text[at + (isDouble ? 2 : 1)] ?? next
      if (char === '`') {
        end()
        isCode = !isCode
      } else if (char === '*' && !isCode && togglesAt(isDouble ? isStrong : isEmphasis, following)) {
        end()
        if (isDouble) isStrong = !isStrong
        else isEmphasis = !isEmphasis
        if (isDouble) at++
      } else plain += char
      last = char
    }
    end()
    return out
  }

  /** A mark opens before a word and closes after one; any other star is a multiplication or a pattern. */
  function togglesAt(isOpen: boolean, following: string): boolean {
    if (isOpen) return last !== '' && !/\s/.test(last)
    return /[\p{L}\p{N}`"'“([]/u.test(following) && (last === '' || /[\s([{"'“—-]/.test(last))
  }

  return {
    write(text) {
      let out = ''
      const [first = '', ...lines] = text.split('\n')
      const add = (part: string) => {
        held += part
        if (kind === null) {
          const begun = held === '' ? null : begin(held)
          // A fence has no text of its own, so its line is decided when it ends.
          if (begun === null || begun === 'fence') return
          kind = begun.kind
          held = begun.rest
          out += begun.shown
        }
        // Marks at the end may be the first half of a longer one, or need to know what follows.
        let cut = held.length
        while (kind !== 'code' && cut > 0 && MARKS.includes(held[cut - 1] ?? '')) cut--
        const rest = held.slice(cut)
        held = held.slice(0, cut)
        out += flush(rest[0] ?? ' ')
        held = rest
      }
      add(first)
      for (const line of lines) {
        if (kind === null && begin(held) === 'fence') {
          isFenced = !isFenced
          const language = held.replace(/^[\s`~]+/, '')
          held = ''
          out += isFenced && language !== '' ? `${styled('2', `  ${language}`)}\n` : ''
        } else out += endLine()
        add(line)
      }
      return out
    },
    end: () => flush('\n'),
  }
}
