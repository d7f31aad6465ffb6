import { useEffect, useRef } from 'react'

/** Keys that work unless the user is typing. */
export type Shortcuts = Readonly<Record<string, (event: KeyboardEvent) => void>>

export function useShortcuts(shortcuts: Shortcuts): void {
  const latest = useRef(shortcuts)
  latest.current = shortcuts
  useEffect(() => {
    function press(event: KeyboardEvent): void {
      if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return
      if (isTyping(event.target) || isMeantForIt(event) || document.querySelector('dialog[open]')) return
      const act = latest.current[event.key]
      if (!act) return
      event.preventDefault()
      act(event)
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [])
}

/** Ctrl or ⌘ with K, which works while typing too, but not over a dialog. */
export function useSearchKey(open: () => void): void {
  const latest = useRef(open)
  latest.current = open
  useEffect(() => {
    function press(event: KeyboardEvent): void {
      const isKey =
        (event.metaKey || event.ctrlKey) &&
        !event.altKey &&
        !event.shiftKey &&
        event.key.toLowerCase() === 'k'
      if (!isKey || document.querySelector('dialog[open]')) return
      event.preventDefault()
      latest.current()
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [])
}

/** True for keys of the focused element: Space and Enter press it, arrows scroll it. */
function isMeantForIt({ key, target }: KeyboardEvent): boolean {
  if (!(target instanceof Element)) return false
  if (key === ' ' || key === 'Enter') return target.closest('button, a, summary, label') !== null
  return /^(Arrow|Home|End)/.test(key) && target.closest('pre, .diff, .table, input') !== null
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      target.matches('textarea, select, input:not([type=range], [type=radio], [type=checkbox])'))
  )
}
