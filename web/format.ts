import { text } from './text.ts'

/** Absolute times in the user's locale, which never go stale on screen. */
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const date = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const numbers = new Intl.NumberFormat()

export function timeOf(timestamp: string): string {
  return clock.format(new Date(timestamp))
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })

/** For lists: the time if it is today, otherwise the date. */
export function whenOf(timestamp: string, now = new Date()): string {
  const then = new Date(timestamp)
  return then.toDateString() === now.toDateString() ? clock.format(then) : day.format(then)
}

export function dateOf(timestamp: string): string {
  return date.format(new Date(timestamp))
}

export function numberOf(value: number): string {
  return numbers.format(value)
}

/** `waitedMs` is time that a person took, and doesn't count. */
export function durationOf(from: string, to: string, waitedMs = 0): string {
  const ms = Math.max(0, Date.parse(to) - Date.parse(from) - waitedMs)
  if (ms < 1000) return `${ms} ms`
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`
  const seconds = Math.round(ms / 1000)
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

export function bytesOf(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  const kib = bytes / 1024
  return kib < 1024 ? `${kib.toFixed(1)} KB` : `${(kib / 1024).toFixed(1)} MB`
}

/** The tokens of a run or a request; the cost only where the provider reports it. */
export function usageText(usage: {
  input: number
  output: number
  cached?: number | undefined
  cost?: number | undefined
}): string {
  const cached = usage.cached ? text.transcript.cached(numberOf(usage.cached)) : ''
  const tokens = text.transcript.usage(numberOf(usage.input) + cached, numberOf(usage.output))
  return usage.cost === undefined ? tokens : `${tokens} · ${text.transcript.cost(usage.cost)}`
}
