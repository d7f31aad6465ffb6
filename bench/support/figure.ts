/** One row of the table. */
export interface Figure {
  figure: string
  ours: string
  peer: string
  ratio: string
  wanted: string
  /** Null when there is no target. */
  met: boolean | null
}

/** Prints the figures for the runner. */
export function report(figures: readonly Figure[]): void {
  process.stdout.write(`${JSON.stringify(figures)}\n`)
}

export function say(text: string): void {
  process.stderr.write(`  ${text}\n`)
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

export function perSecond(rate: number): string {
  return `${Math.round(rate).toLocaleString('en')}/s`
}

export function times(ratio: number): string {
  return `${ratio.toFixed(ratio < 10 ? 1 : 0)}×`
}

export function milliseconds(value: number): string {
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`
}
