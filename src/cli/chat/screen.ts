import { type InputRows, wrapLine } from './rows.ts'

/** The part of a terminal's stream that the screen needs. */
export interface TerminalOutput {
  columns?: number
  rows?: number
  write(text: string): unknown
}

/** What is below the output: the input, and dimmed lines under it. */
export interface Footer extends InputRows {
  below: readonly string[]
}

// The terminal shows everything between these two at once; those that don't know them ignore them.
const BEGIN = '\u001b[?2026h'
const END = '\u001b[?2026l'
const CLEAR_BELOW = '\u001b[J'

/**
 * Output that grows above a footer. Each write clears the footer, adds the text, and draws the footer again with its caret, so
 * that output never disturbs what is being typed.
 */
export class Screen {
  private readonly output: TerminalOutput
  private footer: Footer | null = null
  /** The unfinished last row of the output; it is drawn again with each write. */
  private row = ''
  private indent = ''
  /** Rows between the first one that we draw again and the caret. */
  private above = 0

  constructor(output: TerminalOutput) {
    this.output = output
  }

  get width(): number {
    return Math.max(20, (this.output.columns ?? 80) - 1)
  }

  get height(): number {
    return Math.max(5, this.output.rows ?? 24)
  }

  write(text: string): void {
    const [first = '', ...lines] = text.replaceAll('\t', '    ').split('\n')
    const done = this.add(first)
    for (const line of lines) {
      done.push(this.row)
      this.row = ''
      done.push(...this.add(line))
    }
    this.draw(done)
  }

  show(footer: Footer): void {
    this.footer = footer
    this.draw([])
  }

  /** Ends an unfinished row of output. */
  endRow(): void {
    if (this.row !== '') this.write('\n')
  }

  /** Removes the footer. */
  close(): void {
    this.footer = null
    this.endRow()
    this.draw([])
  }

  /** Adds text without line ends to the last row, and returns the rows that are complete. */
  private add(text: string): string[] {
    if (this.row === '') this.indent = /^ {0,8}/.exec(text)?.[0] ?? ''
    const { rows, rest } = wrapLine(this.row + text, this.width, this.indent)
    this.row = rest
    return rows
  }

  private draw(done: readonly string[]): void {
    const up = this.above === 0 ? '' : `\u001b[${this.above}A`
    const { footer } = this
    const output = [...done, ...(this.row === '' ? [] : [this.row])].map((row) => `${row}\n`).join('')
    this.above = this.row === '' ? 0 : 1
    let text = `\r${up}${CLEAR_BELOW}${output}`
    if (footer) {
      const rows = [...footer.rows, ...footer.below]
      const back = rows.length - 1 - footer.row
      text += `${rows.join('\n')}${back === 0 ? '' : `\u001b[${back}A`}\r${footer.before}`
      this.above += footer.row
    }
    this.output.write(BEGIN + text + END)
  }
}
