#!/usr/bin/env node
import { RequestError } from '../client/index.ts'
import { ConfigError } from '../config.ts'
import { CommandError } from './output.ts'
import { createProgram } from './program.ts'

try {
  await createProgram().parseAsync()
} catch (error) {
  process.exitCode = 1
  if (!isExpected(error)) throw error
  console.error(`waymark: ${sentence(error as Error)}`)
}

/** Errors that say all there is to say; a stack would only be in the way. */
function isExpected(error: unknown): boolean {
  return (
    error instanceof ConfigError ||
    error instanceof CommandError ||
    error instanceof RequestError ||
    isSystemError(error) ||
    isSystemError((error as Error).cause)
  )
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error
}

/** `fetch` says only that it failed; why is in its cause. */
function sentence(error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}
