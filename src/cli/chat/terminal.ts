import { emitKeypressEvents } from 'node:readline'
import type { Key } from './line-editor.ts'
import { Screen } from './screen.ts'

const PASTE_ON = '\u001b[?2004h'
const PASTE_OFF = '\u001b[?2004l'

/** The person's terminal: keys, and a screen whose output never disturbs what is being typed. */
export interface Terminal {
  screen: Screen
  /** Replaces the handler of keys. */
  onKey(handler: (typed: string | undefined, key: Key) => void): void
  /** Called when the size has changed or the program is in the foreground again. */
  onRedraw(handler: () => void): void
  close(): void
}

/** Takes keys one by one. The terminal is as before when the process ends, for whatever reason. */
export function openTerminal(): Terminal {
  const { stdin, stdout } = process
  const screen = new Screen(stdout)
  let pressed: (typed: string | undefined, key: Key) => void = () => {}
  let redraw: () => void = () => {}

  function begin(): void {
    stdin.setRawMode(true)
    stdout.write(PASTE_ON)
  }
  function end(): void {
    stdout.write(PASTE_OFF)
    stdin.setRawMode(false)
  }
  const onKeypress = (typed: string | undefined, key: Key) => {
    if (key.ctrl && key.name === 'z') {
      screen.close()
      end()
      process.kill(process.pid, 'SIGTSTP')
    } else pressed(typed, key)
  }
  const onContinue = () => {
    begin()
    redraw()
  }
  const onResize = () => redraw()

  emitKeypressEvents(stdin)
  stdin.on('keypress', onKeypress)
  stdout.on('resize', onResize)
  process.on('SIGCONT', onContinue)
  process.on('exit', end)
  begin()
  stdin.resume()

  return {
    screen,
    onKey: (handler) => {
      pressed = handler
    },
    onRedraw: (handler) => {
      redraw = handler
    },
    close() {
      stdin.off('keypress', onKeypress)
      stdout.off('resize', onResize)
      process.off('SIGCONT', onContinue)
      process.off('exit', end)
      screen.close()
      end()
      stdin.pause()
    },
  }
}
