import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { visibleFields, visibleText } from './visible-text.ts'

describe('text of an approval question', () => {
  it.each([
    ['ls\u001b[2K\rrm', 'ls⟨U+001B⟩[2K⟨U+000D⟩rm'],
    ['a\u202egnp.exe', 'a⟨U+202E⟩gnp.exe'],
    ['x\u200b\u2066y', 'x⟨U+200B⟩⟨U+2066⟩y'],
    ['tag \udb40\udc41', 'tag ⟨U+E0041⟩'],
    ['half \ud800', 'half ⟨U+D800⟩'],
    [`ls${' '.repeat(500)}; rm -rf .`, 'ls ⟨500 blanks⟩ ; rm -rf .'],
    [`ls${'\n'.repeat(200)}rm -rf .`, 'ls\n⟨199 empty lines⟩\nrm -rf .'],
    ['cd build\r\nrm -rf *', 'cd build⟨U+000D⟩\nrm -rf *'],
    ['größe 🙂\tok\nnext', 'größe 🙂\tok\nnext'],
  ])('shows %j as %j', (text, shown) => {
    expect(visibleText(text)).toBe(shown)
  })

  it('never loses a visible character', () => {
    fc.assert(
      fc.property(
        fc.string({
          unit: fc.constantFrom('a', 'b', ' ', '\n', '\t', '\u0000', '\u202e', '\u200b', ';', '|'),
        }),
        (text) => {
          const seen = (one: string) => one.replaceAll(/[^ab;|]/g, '')
          expect(seen(visibleText(text).replaceAll(/⟨[^⟩]*⟩/g, ''))).toBe(seen(text))
        },
      ),
    )
  })

  it('shows the arguments in full, field by field', () => {
    const written = JSON.stringify({ command: 'echo a\necho b', api_key: 'shown', n: 1 })
    expect(visibleFields(written)).toEqual([
      { name: 'command', text: 'echo a\necho b' },
      { name: 'api_key', text: 'shown' },
      { name: 'n', text: '1' },
    ])
    expect(visibleFields('not json\u0007')).toEqual([{ name: '', text: 'not json⟨U+0007⟩' }])
  })
})
