import { WaymarkError } from '../protocol/errors.ts'
import { BlameTooSlow } from './blame.ts'
import { DiskFull } from './restore.ts'

/** Turns a failure of the workspace into an error for the caller (W7). */
export async function translated<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (cause) {
    if (cause instanceof WaymarkError) throw cause
    if (cause instanceof BlameTooSlow) throw new WaymarkError('too_slow', cause.message, { cause })
    if (cause instanceof DiskFull) throw new WaymarkError('disk_full', cause.message, { cause })
    const why = (cause as Error).message
    throw new WaymarkError('snapshot_failed', `The files could not be saved or read: ${why}`, { cause })
  }
}
