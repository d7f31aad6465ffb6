import {
  type AnchorHTMLAttributes,
  createContext,
  type MouseEvent,
  use,
  useMemo,
  useSyncExternalStore,
} from 'react'

/** A location in the page. The URL holds all of it, so that it can be bookmarked, shared and revisited. */
export interface Place {
  conversationId: string | null
  view: View
  /** The selected event. */
  at: number | null
  /** The conversation to compare with. */
  other: string | null
  /** The response whose context is shown. */
  response: string | null
}

export const views = ['transcript', 'changes', 'timeline', 'context', 'branches'] as const
export type View = (typeof views)[number]

export function parseAddress(address: string): Place {
  const { pathname, searchParams } = new URL(address, 'http://page')
  const [, id = null, view = ''] = /^\/c\/([^/]+)(?:\/([^/]+))?\/?$/.exec(pathname) ?? []
  const at = Number(searchParams.get('at'))
  return {
    conversationId: id === null ? null : decoded(id),
    view: views.find((name) => name === view) ?? 'transcript',
    at: Number.isSafeInteger(at) && at > 0 ? at : null,
    other: searchParams.get('with'),
    response: searchParams.get('response'),
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export function addressOf(place: Partial<Place>): string {
  if (place.conversationId == null) return '/'
  const view = place.view === undefined || place.view === 'transcript' ? '' : `/${place.view}`
  const query = new URLSearchParams()
  if (place.at != null) query.set('at', String(place.at))
  if (place.other != null) query.set('with', place.other)
  if (place.response != null) query.set('response', place.response)
  const text = query.size > 0 ? `?${query}` : ''
  return `/c/${encodeURIComponent(place.conversationId)}${view}${text}`
}

const MOVED = 'waymark:moved'

export function go(place: Partial<Place>, how: 'push' | 'replace' = 'push'): void {
  const address = addressOf(place)
  if (address === location.pathname + location.search) return
  if (how === 'push') history.pushState(null, '', address)
  else history.replaceState(null, '', address)
  dispatchEvent(new Event(MOVED))
}

export function usePlace(): Place {
  const address = useSyncExternalStore(
    (onChange) => {
      addEventListener('popstate', onChange)
      addEventListener(MOVED, onChange)
      return () => {
        removeEventListener('popstate', onChange)
        removeEventListener(MOVED, onChange)
      }
    },
    () => location.pathname + location.search,
  )
  return useMemo(() => parseAddress(address), [address])
}

/** True in a file that needs no server: links have nowhere to lead. */
export const Detached = createContext(false)

type LinkProps = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, 'href'> & { to: Partial<Place> }

/** A link within the page; opening it in a new tab works as usual. */
export function Link({ to, onClick, ...rest }: LinkProps) {
  if (use(Detached)) return <span>{rest.children}</span>
  function follow(event: MouseEvent<HTMLAnchorElement>): void {
    onClick?.(event)
    const isElsewhere = event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0
    if (event.defaultPrevented || isElsewhere) return
    event.preventDefault()
    go(to)
  }
  return <a {...rest} href={addressOf(to)} onClick={follow} />
}
