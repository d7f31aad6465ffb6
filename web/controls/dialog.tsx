import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react'
import { focusComposer } from '../composer/focus.ts'
import { explain, leaveIfSignedOut } from '../server.ts'
import { text } from '../text.ts'
import { Button } from './button.tsx'

interface DialogProps {
  title: string
  children: ReactNode
  onClose(): void
  /** The main button. The dialog closes afterwards unless `run` fails. */
  action?: { label: string; look?: 'main' | 'danger'; run(): Promise<unknown>; isReady?: boolean }
  wide?: boolean
}

/** A native dialog, which traps the focus, closes with Escape and restores the focus. */
export function Dialog({ title, children, onClose, action, wide = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const heading = useId()
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<string | null>(null)

  useEffect(() => {
    const element = dialog.current
    element?.showModal()
    // Closing restores the previous focus, if that element still exists.
    return () => {
      element?.close()
      requestAnimationFrame(() => {
        if (document.activeElement === document.body) focusComposer()
      })
    }
  }, [])

  // The native `close` event fires later, when another dialog may already be open, so `close` reports it immediately.
  const isTold = useRef(false)
  function close(): void {
    dialog.current?.close()
    tell()
  }

  function tell(): void {
    if (isTold.current) return
    isTold.current = true
    onClose()
  }

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault()
    if (!action || isBusy) return
    setBusy(true)
    setFailure(null)
    try {
      await action.run()
      close()
    } catch (error) {
      leaveIfSignedOut(error)
      setFailure(explain(error))
      setBusy(false)
    }
  }

  return (
    <dialog
      ref={dialog}
      className={wide ? 'dialog wide' : 'dialog'}
      aria-labelledby={heading}
      onClose={tell}
      onCancel={(event) => {
        event.preventDefault()
        // The action in progress would continue unseen.
        if (!isBusy) close()
      }}
    >
      <form onSubmit={(event) => void submit(event)}>
        <h2 id={heading}>{title}</h2>
        <div className="dialog-body">{children}</div>
        {failure !== null && (
          <p className="failure" role="alert">
            {failure}
          </p>
        )}
        <div className="dialog-buttons">
          <Button disabled={isBusy} onClick={close}>
            {action ? text.cancel : text.close}
          </Button>
          {action && (
            <Button type="submit" look={action.look ?? 'main'} disabled={isBusy || action.isReady === false}>
              {isBusy ? text.working : action.label}
            </Button>
          )}
        </div>
      </form>
    </dialog>
  )
}
