import type { StreamState } from '../client/index.ts'
import { say } from './output.ts'

/** Reports a lost connection once, and the reconnection once. */
export function sayWhenLost(onBack: () => void = () => {}): (state: StreamState) => void {
  let isLost = false
  return (state) => {
    if (state === 'waiting' && !isLost) say('\nwaymark: connection lost, reconnecting …')
    if (state === 'connected' && isLost) {
      say('waymark: reconnected')
      onBack()
    }
    if (state !== 'connecting') isLost = state === 'waiting'
  }
}
