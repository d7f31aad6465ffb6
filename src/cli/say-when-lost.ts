import type { StreamState } from '../client/index.ts'

/** Reports a lost connection once, and the reconnection once. */
export function sayWhenLost(onBack: () => void = () => {}): (state: StreamState) => void {
  let isLost = false
  return (state) => {
    if (state === 'waiting' && !isLost) console.error('\nwaymark: connection lost, reconnecting …')
    if (state === 'connected' && isLost) {
      console.error('waymark: reconnected')
      onBack()
    }
    if (state !== 'connecting') isLost = state === 'waiting'
  }
}
