import { spawn } from 'node:child_process'
import { once } from 'node:events'
import xterm from '@xterm/headless'

export interface TestTerminal {
  /** The rows of the screen and what has scrolled off, without trailing spaces. */
  rows(): string[]
  text(): string
  /** The row and column of the caret, in the rows of `rows()`. */
  caret(): { row: number; column: number }
  type(keys: string): void
  /** Waits until the screen satisfies the condition. */
  until(condition: (text: string) => boolean, what: string): Promise<void>
  ended(): Promise<number>
}

/** A terminal emulator without a process. */
export function createEmulator(columns: number, rows: number) {
  const terminal = new xterm.Terminal({
    cols: columns,
    rows,
    allowProposedApi: true,
    scrollback: 10_000,
    convertEol: true,
  })
  const all = () => {
    const { active } = terminal.buffer
    return Array.from({ length: active.length }, (_, at) => active.getLine(at)?.translateToString(true) ?? '')
  }
  return {
    columns,
    rows: all,
    write: (text: string) => new Promise<void>((resolve) => terminal.write(text, resolve)),
    caret: () => ({
      row: terminal.buffer.active.baseY + terminal.buffer.active.cursorY,
      column: terminal.buffer.active.cursorX,
    }),
  }
}

/** Runs a command in a real pseudoterminal, shown by a terminal emulator. */
export function openTestTerminal(
  command: readonly string[],
  { env, columns = 80, rows = 24 }: { env: NodeJS.ProcessEnv; columns?: number; rows?: number },
): TestTerminal {
  const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ')
  const child = spawn('script', ['-qfec', `stty rows ${rows} cols ${columns}; exec ${quoted}`, '/dev/null'], {
    env: { ...env, TERM: 'xterm-256color' },
  })
  const emulator = createEmulator(columns, rows)
  child.stdout.on('data', (bytes: Buffer) => void emulator.write(bytes.toString('utf8')))
  const over = once(child, 'close').then(([code]) => code as number)
  const text = () => emulator.rows().join('\n')
  return {
    rows: emulator.rows,
    text,
    caret: emulator.caret,
    type: (keys) => void child.stdin.write(keys),
    async until(condition, what) {
      const end = Date.now() + 30_000
      while (!condition(text())) {
        if (Date.now() > end) throw new Error(`${what} was not seen on the screen:\n${text().trim()}`)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    },
    ended: () => over,
  }
}
