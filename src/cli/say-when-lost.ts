import type { StreamState } from '../client/index.ts'

/** Says once that the connection is gone, and once that it is back. */
export function sayWhenLost(): (state: StreamState) => void {
  let isLost = false
  return (state) => {
    if (state === 'waiting' && !isLost) console.error('waymark: connection lost, trying again …')
    if (state === 'connected' && isLost) console.error('waymark: connected again')
    if (state !== 'connecting') isLost = state === 'waiting'
  }
}
