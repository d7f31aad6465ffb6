import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react'
import { focusComposer } from '../composer/focus.ts'
import { explain, leaveIfSignedOut } from '../server.ts'
import { text } from '../text.ts'
import { Button } from './button.tsx'

interface DialogProps {
  title: string
  children: ReactNode
  onClose(): void
  /** What the main button does; the dialog closes afterwards unless it fails. */
  action?: { label: string; look?: 'main' | 'danger'; run(): Promise<unknown>; isReady?: boolean }
  wide?: boolean
}

/** The browser's own dialog: it keeps the focus inside, closes with Escape, and gives the focus back. */
export function Dialog({ title, children, onClose, action, wide = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const heading = useId()
  const [isBusy, setBusy] = useState(false)
  const [failure, setFailure] = useState<string | null>(null)

  useEffect(() => {
    const element = dialog.current
    element?.showModal()
    // Closing it gives the focus back to where it was, if that is still there.
    return () => {
      element?.close()
      requestAnimationFrame(() => {
        if (document.activeElement === document.body) focusComposer()
      })
    }
  }, [])

  /** By the browser, which gives the focus back to where it was. Its own event comes later: by then another one may have been asked for. */
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
        // What is under way would go on unseen.
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
