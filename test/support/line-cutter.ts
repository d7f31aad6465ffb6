import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A proxy between client and server whose connection can be cut and restored. */
export interface Cable {
  url: string
  pull(): void
  plug(): void
  close(): Promise<void>
}

export async function cableTo(serverUrl: string): Promise<Cable> {
  const target = new URL(serverUrl)
  const sockets = new Set<Socket>()
  let isPulled = false
  const server = createServer((near) => {
    if (isPulled) return near.destroy()
    const far = connect(Number(target.port), target.hostname)
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.pipe(far).pipe(near)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    pull() {
      isPulled = true
      for (const socket of sockets) socket.destroy()
    },
    plug() {
      isPulled = false
    },
    async close() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}
