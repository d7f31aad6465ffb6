import { describe, expect, it } from 'vitest'
import type { QuestionView } from '../../protocol/api/runs.ts'
import { AskFocus } from './pending-asks.ts'

const question = {
  tool_name: 'run_command',
  arguments: '{"command":"npm test"}',
  question_sha256: '0'.repeat(64),
  confinement: { sandbox: 'bubblewrap', network: false, wants_network: false },
  prefix: 'npm test',
  options: [],
} as unknown as QuestionView

describe('keys that answer an approval', () => {
  function focusAt(start = 10_000) {
    let now = start
    const focus = new AskFocus(() => now)
    return { focus, wait: (ms: number) => (now += ms) }
  }

  it('do nothing while the person types, and right after the question appears', () => {
    const { focus, wait } = focusAt()
    focus.noteTyping()
    wait(900)
    focus.offer('')
    expect(focus.isHeld).toBe(false)
    wait(200)
    focus.offer('a draft')
    expect(focus.isHeld).toBe(false)
    focus.offer('')
    expect(focus.isHeld).toBe(true)
    expect(focus.press('y', { name: 'y' }, question)).toEqual({ do: 'text', typed: 'y' })
    wait(499)
    expect(focus.press('y', { name: 'y' }, question)).toEqual({ do: 'text', typed: 'y' })
    wait(1)
    expect(focus.press('y', { name: 'y' }, question)).toMatchObject({
      do: 'answer',
      answer: { approved: true },
    })
  })

  it('allow once, always, in this conversation, or outside the sandbox; or deny', () => {
    const { focus, wait } = focusAt()
    focus.take()
    wait(1000)
    const pressed = (typed: string) => focus.press(typed, { name: typed.toLowerCase() }, question)
    expect(pressed('y')).toMatchObject({ answer: { approved: true, always: false } })
    expect(pressed('a')).toMatchObject({ answer: { always: { match: 'exact', scope: 'workspace' } } })
    expect(pressed('O')).toMatchObject({ answer: { always: { match: 'exact' }, grant: { outside: true } } })
    expect(pressed('n')).toEqual({ do: 'answer', answer: { approved: false } })
    expect(pressed('c')).toEqual({ do: 'scope' })
    focus.changeScope()
    expect(pressed('p')).toMatchObject({ answer: { always: { match: 'prefix', scope: 'conversation' } } })
    expect(pressed('r')).toEqual({ do: 'reason' })
    for (const other of ['x', ' ']) expect(pressed(other)).toEqual({ do: 'text', typed: other })
    for (const other of ['\r', '']) expect(pressed(other)).toEqual({ do: 'none' })
    // Esc and a letter right after it arrive as one key.
    expect(focus.press(undefined, { name: 's', meta: true }, question)).toEqual({ do: 'text', typed: 's' })
  })
})
