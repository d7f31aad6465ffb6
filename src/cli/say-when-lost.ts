import type { StreamState } from '../client/index.ts'

/** Says once that the connection is gone, and once that it is back. */
export function sayWhenLost(onBack: () => void = () => {}): (state: StreamState) => void {
  let isLost = false
  return (state) => {
    if (state === 'waiting' && !isLost) console.error('\nwaymark: connection lost, trying again …')
    if (state === 'connected' && isLost) {
      console.error('waymark: connected again')
      onBack()
    }
    if (state !== 'connecting') isLost = state === 'waiting'
  }
}
