import { describe, expect, it } from 'vitest'
import { type Key, LineEditor } from './line-editor.ts'

const key = (name: string, also: Partial<Key> = {}): [undefined, Key] => [undefined, { name, ...also }]
function type(editor: LineEditor, text: string): void {
  for (const char of text) editor.press(char, { name: char })
}

describe('the line editor', () => {
  it('inserts, moves by characters and words, and deletes', () => {
    const editor = new LineEditor()
    type(editor, 'one two 👩‍👩‍👧')
    editor.press(...key('backspace'))
    // Composed characters are typed as several, and deleted as one.
    expect(editor.text).toBe('one two ')
    editor.press(...key('b', { meta: true }))
    type(editor, 'x')
    expect(editor.text).toBe('one xtwo ')
    editor.press(...key('u', { ctrl: true }))
    expect(editor.text).toBe('two ')
    editor.press(...key('e', { ctrl: true }))
    editor.press(...key('w', { ctrl: true }))
    expect(editor.text).toBe('')
  })

  it('sends on Enter, and begins a new line after a backslash or with Alt', () => {
    const editor = new LineEditor()
    type(editor, 'a\\')
    expect(editor.press('\r', { name: 'return' })).toBe('edited')
    type(editor, 'b')
    editor.press('\r', { name: 'return', meta: true })
    type(editor, 'c')
    expect(editor.press('\r', { name: 'return' })).toBe('submit')
    expect(editor.take()).toBe('a\nb\nc')
  })

  it('never sends on a line end in pasted text', () => {
    const editor = new LineEditor()
    editor.press(...key('paste-start'))
    for (const char of 'first\r\tsecond\r') {
      expect(editor.press(char, { name: char === '\r' ? 'return' : char === '\t' ? 'tab' : char })).toBe(
        'edited',
      )
    }
    editor.press(...key('paste-end'))
    expect(editor.text).toBe('first\n\tsecond\n')
  })

  it('goes through lines and then through earlier messages, and returns to the draft', () => {
    const editor = new LineEditor()
    type(editor, 'earlier')
    editor.take()
    editor.set('top\nbottom')
    editor.press(...key('up'))
    expect([editor.text, editor.caret]).toEqual(['top\nbottom', 3])
    editor.press(...key('up'))
    expect(editor.text).toBe('earlier')
    editor.press(...key('down'))
    expect(editor.text).toBe('top\nbottom')
    expect(editor.press(...key('down'))).toBe('none')
  })

  it('ends on Ctrl-D only without text', () => {
    const editor = new LineEditor()
    type(editor, 'a')
    expect(editor.press(...key('d', { ctrl: true }))).not.toBe('end')
    editor.take()
    expect(editor.press(...key('d', { ctrl: true }))).toBe('end')
  })
})
