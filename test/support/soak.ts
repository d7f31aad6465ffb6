/** `full` under `npm run soak`, `short` in `npm test`. */
export function rounds(short: number, full: number): number {
  return process.env.WAYMARK_SOAK ? full : short
}
