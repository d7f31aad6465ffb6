/** The full count under `npm run soak`, a short one in `npm test`. */
export function rounds(short: number, full: number): number {
  return process.env.WAYMARK_SOAK ? full : short
}
