/** A key as `readline.emitKeypressEvents` reports it. */
export interface Key {
  name?: string | undefined
  ctrl?: boolean | undefined
  meta?: boolean | undefined
  shift?: boolean | undefined
}

/** What a key did: changed the text, or what the caller has to do. */
export type Effect = 'edited' | 'submit' | 'complete' | 'interrupt' | 'escape' | 'end' | 'none'

const MOST_REMEMBERED = 500
const graphemes = new Intl.Segmenter()

/** A text of one or more lines with a caret, edited by keys. It knows nothing of the terminal. */
export class LineEditor {
  text = ''
  caret = 0
  private isPasting = false
  private readonly history: string[] = []
  /** The entry of the history that is shown; its length while the person's own text is. */
  private place = 0
  private draft = ''

  press(typed: string | undefined, key: Key): Effect {
    if (key.name === 'paste-start' || key.name === 'paste-end') {
      this.isPasting = key.name === 'paste-start'
      return 'none'
    }
    if (this.isPasting) return this.insert(key.name === 'return' ? '\n' : (typed ?? ''))
    if (key.ctrl) return this.pressWithCtrl(key.name)
    if (key.meta) return this.pressWithMeta(key.name)
    switch (key.name) {
      case 'return':
        return this.enter()
      case 'enter':
        return this.insert('\n')
      case 'tab':
        return 'complete'
      case 'escape':
        return 'escape'
      case 'backspace':
        return this.replace(this.before(), this.caret, '')
      case 'delete':
        return this.replace(this.caret, this.after(), '')
      case 'left':
        return this.move(this.before())
      case 'right':
        return this.move(this.after())
      case 'home':
        return this.move(this.lineStart())
      case 'end':
        return this.move(this.lineEnd())
      case 'up':
        return this.up()
      case 'down':
        return this.down()
      default:
        return typed === undefined || isControl(typed) ? 'none' : this.insert(typed)
    }
  }

  /** Replaces the text; the up key then begins with the last message again. */
  set(text: string, caret = text.length): void {
    this.text = text
    this.caret = caret
    this.place = this.history.length
  }

  /** Empties the editor, and remembers its text for the up key. */
  take(): string {
    const { text } = this
    if (text.trim() !== '' && this.history.at(-1) !== text) this.history.push(text)
    if (this.history.length > MOST_REMEMBERED) this.history.shift()
    this.set('')
    return text
  }

  private pressWithCtrl(name: string | undefined): Effect {
    switch (name) {
      case 'c':
        return 'interrupt'
      case 'd':
        return this.text === '' ? 'end' : this.replace(this.caret, this.after(), '')
      case 'a':
        return this.move(this.lineStart())
      case 'e':
        return this.move(this.lineEnd())
      case 'b':
        return this.move(this.before())
      case 'f':
        return this.move(this.after())
      case 'p':
        return this.up()
      case 'n':
        return this.down()
      case 'h':
        return this.replace(this.before(), this.caret, '')
      case 'j':
        return this.insert('\n')
      case 'k':
        return this.replace(this.caret, this.lineEnd(), '')
      case 'u':
        return this.replace(this.lineStart(), this.caret, '')
      case 'w':
        return this.replace(this.wordStart(), this.caret, '')
      case 'left':
        return this.move(this.wordStart())
      case 'right':
        return this.move(this.wordEnd())
      default:
        return 'none'
    }
  }

  private pressWithMeta(name: string | undefined): Effect {
    switch (name) {
      case 'return':
      case 'enter':
        return this.insert('\n')
      case 'b':
      case 'left':
        return this.move(this.wordStart())
      case 'f':
      case 'right':
        return this.move(this.wordEnd())
      case 'd':
        return this.replace(this.caret, this.wordEnd(), '')
      case 'backspace':
        return this.replace(this.wordStart(), this.caret, '')
      case 'escape':
        return 'escape'
      default:
        // Terminals send Esc and a letter right after it as one key: the letter must not be lost.
        return name?.length === 1 ? this.insert(name) : 'none'
    }
  }

  /** Enter sends the text; after a backslash it begins a new line. */
  private enter(): Effect {
    if (this.text[this.caret - 1] !== '\\') return 'submit'
    return this.replace(this.caret - 1, this.caret, '\n')
  }

  private insert(text: string): Effect {
    return this.replace(this.caret, this.caret, text.replaceAll(/\r\n?/g, '\n'))
  }

  private replace(from: number, to: number, text: string): Effect {
    this.text = this.text.slice(0, from) + text + this.text.slice(to)
    this.caret = from + text.length
    return 'edited'
  }

  private move(caret: number): Effect {
    this.caret = caret
    return 'edited'
  }

  private up(): Effect {
    const start = this.lineStart()
    if (start === 0) return this.recall(this.place - 1)
    const column = this.caret - start
    const above = this.text.lastIndexOf('\n', start - 2) + 1
    return this.move(Math.min(above + column, start - 1))
  }

  private down(): Effect {
    const end = this.lineEnd()
    if (end === this.text.length) return this.recall(this.place + 1)
    const column = this.caret - this.lineStart()
    const next = this.text.indexOf('\n', end + 1)
    return this.move(Math.min(end + 1 + column, next < 0 ? this.text.length : next))
  }

  private recall(place: number): Effect {
    if (place < 0 || place > this.history.length) return 'none'
    if (this.place === this.history.length) this.draft = this.text
    this.text = this.history[place] ?? this.draft
    this.caret = this.text.length
    this.place = place
    return 'edited'
  }

  private before(): number {
    const last = [...graphemes.segment(this.text.slice(this.lineStart(), this.caret))].at(-1)
    return this.caret - (last?.segment.length ?? Math.min(1, this.caret))
  }

  private after(): number {
    const [first] = graphemes.segment(this.text.slice(this.caret, this.lineEnd()))
    return Math.min(this.text.length, this.caret + (first?.segment.length ?? 1))
  }

  private wordStart(): number {
    return this.text.slice(0, this.caret).search(/\S*\s*$/)
  }

  private wordEnd(): number {
    return this.caret + (/^\s*\S*/.exec(this.text.slice(this.caret))?.[0].length ?? 0)
  }

  private lineStart(): number {
    return this.text.lastIndexOf('\n', this.caret - 1) + 1
  }

  private lineEnd(): number {
    const end = this.text.indexOf('\n', this.caret)
    return end < 0 ? this.text.length : end
  }
}

function isControl(typed: string): boolean {
  // oxlint-disable-next-line no-control-regex -- escape sequences of keys that have no meaning here
  return /^[\u0000-\u001f\u007f]/.test(typed)
}
