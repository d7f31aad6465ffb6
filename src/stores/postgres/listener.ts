import pg from 'pg'

const RECONNECT_MS = 1000

export interface Listener {
  /** Calls `tell` with the payload of each notification; null when some may have been missed. */
  onNotice(tell: (payload: string | null) => void): void
  close(): Promise<void>
}

/** A connection that listens for notifications and reconnects when it breaks. */
export async function createListener(options: { url: string; channel: string }): Promise<Listener> {
  const tellers: ((payload: string | null) => void)[] = []
  let client: pg.Client | null = null
  let closed = false
  let isReconnecting = false
  let timer: NodeJS.Timeout | undefined

  const tell = (payload: string | null) => {
    for (const teller of tellers) teller(payload)
  }

  async function connect(): Promise<void> {
    const next = new pg.Client({ connectionString: options.url, keepAlive: true })
    next.on('notification', (notice) => tell(notice.payload ?? null))
    next.on('error', () => lose(next))
    next.on('end', () => lose(next))
    try {
      await next.connect()
      await next.query(`listen ${options.channel}`)
    } catch (error) {
      await next.end().catch(() => {})
      throw error
    }
    if (closed) return await next.end()
    client = next
  }

  function lose(lost: pg.Client): void {
    if (client !== lost) return
    client = null
    if (!isReconnecting) void reconnect()
  }

  async function reconnect(): Promise<void> {
    isReconnecting = true
    while (!closed && client === null) {
      const isBack = await connect().then(
        () => true,
        () => false,
      )
      // Notifications may have been lost in the meantime.
      if (isBack) tell(null)
      else await pause(RECONNECT_MS)
    }
    isReconnecting = false
  }

  function pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      timer = setTimeout(resolve, milliseconds)
      timer.unref()
    })
  }

  await connect()
  return {
    onNotice: (teller) => {
      tellers.push(teller)
    },
    async close() {
      closed = true
      clearTimeout(timer)
      const last = client
      client = null
      await last?.end()
    },
  }
}
