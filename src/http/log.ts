import { pino } from 'pino'
import type { Log } from '../core/log.ts'

/** Structured, on standard output, without secrets. */
export function createLog(level: string): Log {
  return pino({ level, redact: ['token', 'authorization', '*.token', '*.authorization'] })
}
