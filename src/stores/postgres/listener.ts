import pg from 'pg'

const RECONNECT_MS = 1000

export interface Listener {
  /** Tells the payload of each notice; null when some may have been missed. */
  onNotice(tell: (payload: string | null) => void): void
  close(): Promise<void>
}

/** A connection that listens, and comes back when it breaks. */
export async function createListener(options: { url: string; channel: string }): Promise<Listener> {
  const tellers: ((payload: string | null) => void)[] = []
  let client: pg.Client | null = null
  let closed = false
  let timer: NodeJS.Timeout | undefined

  const tell = (payload: string | null) => {
    for (const teller of tellers) teller(payload)
  }

  async function connect(): Promise<void> {
    const next = new pg.Client({ connectionString: options.url, keepAlive: true })
    next.on('notification', (notice) => tell(notice.payload ?? null))
    next.on('error', () => reconnectLater(next))
    next.on('end', () => reconnectLater(next))
    await next.connect()
    client = next
    await next.query(`listen ${options.channel}`)
  }

  function reconnectLater(lost: pg.Client): void {
    if (closed || client !== lost) return
    client = null
    const attempt = () => {
      connect().then(
        () => tell(null),
        () => {
          if (!closed) timer = setTimeout(attempt, RECONNECT_MS)
        },
      )
    }
    attempt()
  }

  await connect()
  return {
    onNotice: (teller) => {
      tellers.push(teller)
    },
    async close() {
      closed = true
      clearTimeout(timer)
      await client?.end()
    },
  }
}
