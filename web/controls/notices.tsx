import { createContext, type ReactNode, use, useCallback, useMemo, useState } from 'react'
import { focusComposer } from '../composer/focus.ts'
import { placeOf, usePlace } from '../location.tsx'
import { explain, leaveIfSignedOut } from '../server.ts'
import { text } from '../text.ts'
import { Button, IconButton } from './button.tsx'

export interface Notice {
  message: string
  /** More than a line has room for, such as what was skipped. */
  details?: readonly string[]
  actions?: readonly NoticeAction[]
  isProblem?: boolean
  /** Shown only where that conversation is; without one, everywhere. */
  conversationId?: string
  /** What it is about: a later one about the same takes its place. */
  about?: string
}

export interface NoticeAction {
  label: string
  /** The notice stays afterwards: this action only asks a question, and the others are still needed. */
  stays?: boolean
  run(): Promise<unknown>
}

interface Shown {
  shown: readonly (Notice & { no: number })[]
  close(no: number): void
}

interface Notices {
  show(notice: Notice): void
  /** What was said about this holds no longer. */
  dismiss(about: string): void
  /** Does something and says what went wrong, if something does. */
  attempt(work: () => Promise<unknown>): Promise<void>
}

const ActsContext = createContext<Notices | null>(null)
const ListContext = createContext<Shown>({ shown: [], close: () => {} })
const SHOWN_MS = 12_000

/** What has just happened and how to undo it: shown until one has had time to read it, read out when it comes. */
export function NoticesProvider({ children }: { children: ReactNode }) {
  const [shown, setShown] = useState<readonly (Notice & { no: number })[]>([])
  const close = useCallback((no: number) => setShown((list) => list.filter((one) => one.no !== no)), [])

  const acts = useMemo(() => {
    let last = 0
    function show(notice: Notice): void {
      const no = ++last
      const about = notice.about ?? notice.message
      const isSame = (one: Notice) =>
        (one.about ?? one.message) === about && (!one.actions || one.about !== undefined)
      setShown((list) => [...roomFor(list.filter((one) => !isSame(one))), { ...notice, no }])
      // Whatever can be undone, or has to be read, stays until it is closed.
      if (!notice.actions && !notice.details?.length) setTimeout(() => close(no), SHOWN_MS)
    }
    async function attempt(work: () => Promise<unknown>): Promise<void> {
      const { conversationId } = placeOf(location.href)
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

/** What can be undone is not pushed out by what can't. */
function roomFor(list: Shown['shown']): Shown['shown'] {
  if (list.length < MOST) return list
  const dropped = list.find((notice) => !notice.actions)
  return list.filter((notice) => notice !== dropped)
}

/** In the flow of the page, so that they never lie over what one wants to press. */
export function NoticeList() {
  const { shown, close } = use(ListContext)
  const { attempt } = useNotices()
  const { conversationId } = usePlace()
  const [busy, setBusy] = useState<readonly number[]>([])
  const here = shown.filter((notice) => (notice.conversationId ?? conversationId) === conversationId)
  return (
    <div className="notices" role="status">
      {here.map(({ no, message, details = [], actions = [], isProblem }) => (
        <div key={no} className={isProblem ? 'notice problem' : 'notice'}>
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

export function useNotices(): Notices {
  const acts = use(ActsContext)
  if (!acts) throw new Error('there is no place for notices')
  return acts
}
