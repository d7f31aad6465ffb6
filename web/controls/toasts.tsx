import { createContext, type ReactNode, use, useCallback, useMemo, useState } from 'react'
import { NEW } from '../composer/drafts.ts'
import { focusComposer } from '../composer/focus.ts'
import { parseAddress, usePlace } from '../location.tsx'
import { explain, leaveIfSignedOut } from '../server.ts'
import { text } from '../text.ts'
import { Button, IconButton } from './button.tsx'

export interface Toast {
  message: string
  /** Additional lines, such as skipped files. */
  details?: readonly string[]
  actions?: readonly ToastAction[]
  isProblem?: boolean
  /** Shows the toast only in this conversation; without an id, everywhere. */
  conversationId?: string
  /** Topic: a later toast with the same topic replaces this one. */
  about?: string
}

export interface ToastAction {
  label: string
  /** Keeps the toast open: this action only opens a dialog, and the other actions are still needed. */
  stays?: boolean
  run(): Promise<unknown>
}

interface Shown {
  shown: readonly (Toast & { no: number })[]
  close(no: number): void
}

interface Toasts {
  show(toast: Toast): void
  /** Removes toasts about this topic. */
  dismiss(about: string): void
  /** Runs `work` and shows its error as a toast. */
  attempt(work: () => Promise<unknown>): Promise<void>
}

const ActsContext = createContext<Toasts | null>(null)
const ListContext = createContext<Shown>({ shown: [], close: () => {} })
const SHOWN_MS = 12_000

/** Toasts of recent actions and how to undo them. They disappear after a while, and screen readers announce them. */
export function ToastsProvider({ children }: { children: ReactNode }) {
  const [shown, setShown] = useState<readonly (Toast & { no: number })[]>([])
  const close = useCallback((no: number) => setShown((list) => list.filter((one) => one.no !== no)), [])

  const acts = useMemo(() => {
    let last = 0
    function show(toast: Toast): void {
      const no = ++last
      const about = toast.about ?? toast.message
      const isSame = (one: Toast) =>
        (one.about ?? one.message) === about && (!one.actions || one.about !== undefined)
      setShown((list) => [...roomFor(list.filter((one) => !isSame(one))), { ...toast, no }])
      // Toasts with actions or details stay until they are closed.
      if (!toast.actions && !toast.details?.length) setTimeout(() => close(no), SHOWN_MS)
    }
    async function attempt(work: () => Promise<unknown>): Promise<void> {
      const { conversationId } = parseAddress(location.href)
      try {
        await work()
      } catch (error) {
        leaveIfSignedOut(error)
        const where = conversationId === null ? {} : { conversationId }
        show({ message: explain(error), isProblem: true, ...where })
      }
    }
    const dismiss = (about: string) => setShown((list) => list.filter((one) => one.about !== about))
    return { show, dismiss, attempt }
  }, [close])

  const list = useMemo(() => ({ shown, close }), [shown, close])
  return (
    <ActsContext value={acts}>
      <ListContext value={list}>{children}</ListContext>
    </ActsContext>
  )
}

const MOST = 4

/** Makes room for a new toast, without dropping toasts that have actions. */
function roomFor(list: Shown['shown']): Shown['shown'] {
  if (list.length < MOST) return list
  const dropped = list.find((toast) => !toast.actions)
  return list.filter((toast) => toast !== dropped)
}

/** Floats above the composer, so that a notice moves nothing else. */
export function ToastList() {
  const { shown, close } = use(ListContext)
  const { attempt } = useToasts()
  const { conversationId } = usePlace()
  const [busy, setBusy] = useState<readonly number[]>([])
  const place = conversationId ?? NEW
  const here = shown.filter((toast) => (toast.conversationId ?? place) === place)
  return (
    <div className="toasts" role="status">
      {here.map(({ no, message, details = [], actions = [], isProblem }) => (
        <div key={no} className={isProblem ? 'toast problem' : 'toast'}>
          <div>
            <p>{message}</p>
            {details.length > 0 && (
              <ul>
                {details.map((line) => (
                  <li key={line}>{line}</li>
                ))}
              </ul>
            )}
          </div>
          {actions.length > 0 && (
            <div className="toast-actions">
              {actions.map(({ label, stays, run }) => (
                <Button
                  key={label}
                  icon="restore"
                  disabled={busy.includes(no)}
                  onClick={() => {
                    setBusy((all) => [...all, no])
                    focusComposer()
                    void attempt(async () => {
                      await run()
                      if (!stays) close(no)
                    }).finally(() => setBusy((all) => all.filter((one) => one !== no)))
                  }}
                >
                  {label}
                </Button>
              ))}
            </div>
          )}
          <IconButton
            icon="close"
            name={text.close}
            onClick={() => {
              focusComposer()
              close(no)
            }}
          />
        </div>
      ))}
    </div>
  )
}

export function useToasts(): Toasts {
  const acts = use(ActsContext)
  if (!acts) throw new Error('useToasts needs a ToastsProvider')
  return acts
}
