/** Times as people of this place write them, the same however late one looks. */
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const date = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const numbers = new Intl.NumberFormat()

export function timeOf(timestamp: string): string {
  return clock.format(new Date(timestamp))
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })

/** For lists: the time of what is of today, the day of what is older. */
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

export function durationOf(from: string, to: string): string {
  const ms = Math.max(0, Date.parse(to) - Date.parse(from))
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

/** What a conversation is about, from its first words: without marks, and without what only tells the demo model what to do. */
export function titleFrom(content: string): string {
  const lines = content.split('\n').filter((line) => line.trim() !== '')
  const told = lines.find((line) => !line.startsWith('!')) ?? lines[0] ?? ''
  return shortened(told.replaceAll(/[*`]+|^[#>\s]+/g, ''), 60) || shortened(content, 60)
}

/** A long line as far as there is room. */
export function shortened(content: string, most: number): string {
  const line = content.replaceAll(/\s+/g, ' ').trim()
  return line.length > most ? `${line.slice(0, most - 1)}…` : line
}
