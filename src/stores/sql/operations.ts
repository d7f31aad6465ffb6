import { endsRun } from '../../core/append.ts'
import * as context from './context/operations.ts'
import * as conversations from './conversations/operations.ts'
import type { Dialect } from './dialect.ts'
import type { AppendRequest } from './lines/append.ts'
import * as lines from './lines/operations.ts'
import type { Read, Write } from './operation.ts'
import * as queue from './queue/operations.ts'
import type { Script } from './script.ts'
import * as transfer from './transfer/operations.ts'
import * as upkeep from './upkeep/operations.ts'
import * as work from './work-sessions/operations.ts'

/** Every store operation by name: only the name and its argument are sent to SQLite's threads. */
export const reads = {
  ...lines.reads,
  ...conversations.reads,
  ...queue.reads,
  ...context.reads,
  ...work.reads,
  ...upkeep.reads,
  ...transfer.reads,
}

export const writes = {
  ...lines.writes,
  ...conversations.writes,
  ...queue.writes,
  ...context.writes,
  ...work.writes,
  ...upkeep.writes,
  ...transfer.writes,
}

type Reads = typeof reads
type Writes = typeof writes

export type ReadName = keyof Reads
export type ReadArgument<K extends ReadName> = Parameters<Reads[K]['script']>[1]
export type ReadResult<K extends ReadName> = ResultOf<ReturnType<Reads[K]['script']>>

export type WriteName = keyof Writes
export type WriteArgument<K extends WriteName> = Parameters<Writes[K]['script']>[1]
export type WriteResult<K extends WriteName> = ResultOf<ReturnType<Writes[K]['script']>>

type ResultOf<S> = S extends Script<infer R> ? R : never

/** How long a person's search may take. The server's own work, such as collecting, has no limit. */
export const READ_BUDGET_MS = 10_000

/** The message of the error that a read over its budget ends in: only messages cross threads. */
export const OVER_BUDGET = 'the read took longer than its budget'

export interface ReadCall {
  name: ReadName
  argument: unknown
}

/** A write as callers send it: the argument of an append is one request. */
export interface WriteCall {
  name: WriteName
  argument: unknown
}

export function readOf({ name }: ReadCall): Read<unknown, unknown> {
  return reads[name] as Read<unknown, unknown>
}

function writeOf({ name }: WriteCall): Write<unknown, unknown> {
  return writes[name]
}

export function isSlow(call: ReadCall): boolean {
  const { isSlow } = readOf(call)
  return typeof isSlow === 'function' ? isSlow(call.argument) : isSlow === true
}

export function keepsHeads(call: WriteCall): boolean {
  return writeOf(call).keepsHeads === true
}

export function isAlone(call: WriteCall): boolean {
  return writeOf(call).isAlone === true
}

/** Appends of a run state how many frames come before them, so a repeated one is recognized. */
export function isRepeatable(call: WriteCall): boolean {
  const request = appendIn(call)
  return request ? request.runId !== null : writeOf(call).isRepeatable === true
}

export function lineChangedBy(call: WriteCall): string | null {
  return appendIn(call)?.conversationId ?? writeOf(call).changesLine?.(call.argument) ?? null
}

export function queueChangedBy(call: WriteCall, result: unknown): string | null {
  const request = appendIn(call)
  // A terminal frame takes its run out of the queue.
  if (request) return endsRun(request) ? request.conversationId : null
  return writeOf(call).changesQueue?.(call.argument, result) ?? null
}

export function lockedBy(call: WriteCall): string | null {
  return writeOf(call).locks?.(call.argument) ?? null
}

export function readScript(dialect: Dialect, call: ReadCall): Script<unknown> {
  return readOf(call).script(dialect, call.argument)
}

/** The argument of an append is a list here: see `group.ts`. */
export function writeScript(dialect: Dialect, call: WriteCall): Script<unknown> {
  return writeOf(call).script(dialect, call.argument)
}

function appendIn({ name, argument }: WriteCall): AppendRequest | null {
  return name === 'append' ? (argument as AppendRequest) : null
}
