import { describe, expect, it } from 'vitest'
import type { Conversation } from '../src/protocol/api/conversations.ts'
import type { Family } from '../src/protocol/api/lines.ts'
import { isNamed, mentionAt, withMention, withoutMention } from '../src/protocol/mention.ts'
import { titleFrom } from '../src/protocol/title.ts'
import { drawFamily } from './branches/family-graph.ts'
import { groupParts, nameOfOrigin } from './context/parts.ts'
import { inFamilyOrder } from './conversations/family-order.ts'
import { durationOf } from './format.ts'
import { addressOf, parseAddress } from './location.tsx'
import { changedParts, diffLines } from './transcript/diff-lines.ts'
import { decodeEntities } from './transcript/entities.ts'
import { safeAddress } from './transcript/markdown.tsx'

describe('parts of the page that need no browser', () => {
  it('converts a place to an address and back', () => {
    const place = {
      conversationId: 'conv_1',
      view: 'timeline' as const,
      at: 12,
      other: null,
      response: null,
    }
    expect(addressOf(place)).toBe('/c/conv_1/timeline?at=12')
    expect(parseAddress(addressOf(place))).toEqual(place)
    expect(parseAddress('/')).toMatchObject({ conversationId: null, view: 'transcript' })
    expect(parseAddress('/c/conv_1/nonsense?at=-3')).toMatchObject({
      conversationId: 'conv_1',
      view: 'transcript',
      at: null,
    })
    expect(addressOf({ conversationId: 'conv_1', view: 'branches', other: 'conv_2' })).toBe(
      '/c/conv_1/branches?with=conv_2',
    )
  })

  it('finds a mention from its @ to the caret, but not in the middle of a word', () => {
    expect(mentionAt('look at @src/ba', 15)).toEqual({ start: 8, typed: 'src/ba' })
    expect(mentionAt('@', 1)).toEqual({ start: 0, typed: '' })
    expect(mentionAt('ada@example.com', 15)).toBeNull()
    expect(mentionAt('look at @a and', 14)).toBeNull()
    expect(withMention('look at @ba, please', { start: 8, typed: 'ba' }, 'src/basket.ts')).toEqual({
      content: 'look at @src/basket.ts , please',
      caret: 23,
    })
  })

  it('numbers the lines of a diff, before and after', () => {
    const diff = [
      'diff --git a/a.txt b/a.txt',
      '--- a/a.txt',
      '+++ b/a.txt',
      '@@ -1,3 +1,3 @@',
      ' one',
      '-two',
      '+zwei',
      ' three',
      '@@ -10 +10,2 @@ function f()',
      ' ten',
      '+eleven',
      '\\ No newline at end of file',
      '',
    ].join('\n')
    expect(diffLines(diff).map(({ kind, before, after, text }) => [kind, before, after, text])).toEqual([
      ['same', 1, 1, 'one'],
      ['removed', 2, null, 'two'],
      ['added', null, 2, 'zwei'],
      ['same', 3, 3, 'three'],
      ['gap', null, null, 'function f()'],
      ['same', 10, 10, 'ten'],
      ['added', null, 11, 'eleven'],
    ])
    // Changed lines that look like a file header are still lines.
    expect(diffLines('@@ -1 +1 @@\n--- a\n+++ b').map((line) => line.text)).toEqual(['-- a', '++ b'])
  })

  it('marks the words that differ between a line and the one that replaces it', () => {
    const marked = (diff: string) => {
      const lines = diffLines(diff)
      return [...changedParts(lines)].map(([index, { from, to }]) => lines[index]?.text.slice(from, to))
    }
    expect(marked('@@ -1 +1 @@\n-const total = sum(items)\n+const total = exactSum(items)')).toEqual([
      'sum',
      'exactSum',
    ])
    expect(marked('@@ -1 +1 @@\n-return total\n+return total * 2')).toEqual([' * 2'])
    // Lines with little in common, and a different number of lines.
    expect(marked('@@ -1 +1 @@\n-alpha beta\n+something else')).toEqual([])
    expect(marked('@@ -1,2 +1 @@\n-one\n-two\n+one two')).toEqual([])
  })

  it('allows only web and mail links', () => {
    expect(safeAddress('https://example.com/?a=1&amp;b=2')).toBe('https://example.com/?a=1&b=2')
    expect(safeAddress('mailto:ada@example.com')).toBe('mailto:ada@example.com')
    for (const href of [
      'javascript:alert(1)',
      ' JaVaScript:alert(1)',
      'java\tscript:alert(1)',
      '&#106;avascript:alert(1)',
      'data:text/html,x',
      'vbscript:x',
      'file:///etc/passwd',
      '//evil.example',
      '/login?code=x',
      'https://',
    ]) {
      expect(safeAddress(href), href).toBeNull()
    }
  })

  it('derives a title from the first words of a message, without markup', () => {
    expect(titleFrom('## Look at **this** `code`\nand more')).toBe('Look at this code')
    expect(titleFrom('!wait 40\nWhat is snake_case?')).toBe('What is snake_case?')
    expect(titleFrom('!write_to_file {"path":"a"}')).toBe('!write_to_file {"path":"a"}')
    expect(titleFrom('***')).toBe('***')
    expect(titleFrom('x'.repeat(100)).length).toBe(60)
  })

  it('matches a mention by the whole file name', () => {
    expect(isNamed('see @a.ts.', 'a.ts')).toBe(true)
    expect(isNamed('see @a.tsx and @a.ts-old, @a.ts/b', 'a.ts')).toBe(false)
    expect(isNamed('see @a.tsx, @a.ts', 'a.ts')).toBe(true)
    expect(withoutMention('@a.tsx and @a.ts, @a.ts', 'a.ts')).toBe('@a.tsx and a.ts, a.ts')
  })

  it('formats durations', () => {
    const after = (ms: number) =>
      durationOf('2026-01-01T00:00:00.000Z', new Date(Date.UTC(2026, 0, 1) + ms).toISOString())
    expect([999, 9949, 9950, 59_600, 119_700].map(after)).toEqual([
      '999 ms',
      '9.9 s',
      '10 s',
      '1 min 0 s',
      '2 min 0 s',
    ])
  })

  it('decodes entities once', () => {
    expect(decodeEntities('&lt;b&gt; &amp;lt; &#x41;&#66; &nosuch; &constructor; &#0; &')).toBe(
      '<b> &lt; AB &nosuch; &constructor; &#0; &',
    )
  })

  const conversation = (id: string, parent: string | null, updated_at: string) =>
    ({
      id,
      parent: parent === null ? null : { conversation_id: parent, event_number: 3 },
      updated_at,
    }) as Conversation

  it('lists forks below their parent, and the last changed family first', () => {
    const listed = inFamilyOrder([
      conversation('b', null, '3'),
      conversation('a1', 'a', '4'),
      conversation('a', null, '1'),
      conversation('a11', 'a1', '2'),
      conversation('lost', 'not in this list', '0'),
    ])
    expect(listed.map(({ conversation: { id }, depth }) => [id, depth])).toEqual([
      ['a', 0],
      ['a1', 1],
      ['a11', 2],
      ['b', 0],
      ['lost', 0],
    ])
  })

  it('draws each fork below its parent, where it diverges', () => {
    const item = (conversation_id: string, parent: [string, number] | null, head_event_number: number) => ({
      conversation_id,
      parent: parent && { conversation_id: parent[0], event_number: parent[1] },
      head_event_number,
    })
    const family = {
      root: 'r',
      items: [
        item('r', null, 100),
        item('late', ['r', 50], 60),
        item('early', ['r', 10], 200),
        item('deep', ['early', 150], 160),
      ],
    } as Family
    expect(
      drawFamily(family).map(({ member, row, from, to, parentRow }) => [
        member.conversation_id,
        row,
        from,
        to,
        parentRow,
      ]),
    ).toEqual([
      ['r', 0, 0, 0.5, null],
      ['early', 1, 0.05, 1, 0],
      ['deep', 2, 0.75, 0.8, 1],
      ['late', 3, 0.25, 0.3, 0],
    ])
  })

  it('[C8] sums up the parts of a request by origin', () => {
    const part = (type: string, tokens: number, sent: boolean, more: object = {}) => ({
      origin: { type, ...more },
      tokens,
      sent,
      why: '',
    })
    const parts = [
      part('message', 3, false),
      part('message', 4, true),
      part('chunk', 5, true, { path: 'a.ts', start_line: 1, end_line: 9 }),
      part('message', 6, true),
    ]
    expect(groupParts(parts, true)).toEqual([
      { type: 'message', tokens: 10, count: 2 },
      { type: 'chunk', tokens: 5, count: 1 },
    ])
    expect(nameOfOrigin(parts[2]?.origin ?? { type: '' })).toBe('a.ts:1–9')
  })
})
