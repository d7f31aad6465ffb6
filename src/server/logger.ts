import { pino } from 'pino'
import type { Log } from '../core/log.ts'

/** Logs JSON to standard output, with secrets redacted. */
export function createLog(level: string): Log {
  return pino({ level, redact: ['token', 'authorization', '*.token', '*.authorization'] })
}
