/** Counts a text's tokens approximately: models differ, but not by much. */
export type CountTokens = (text: string) => number

/** Good enough for the record of each request; the tables for an exact count take 76 MB. */
export const estimateTokens: CountTokens = (text) => Math.ceil(Buffer.byteLength(text) / 4)

const SLICE = 1000

/** A text longer than this is estimated from its beginning: an exact count would take as long as a request. */
const COUNTED_CHARACTERS = 200_000

/** Loaded on first use, because loading takes a fifth of a second. */
export async function loadTokenCounter(): Promise<CountTokens> {
  const { countTokens } = await import('gpt-tokenizer/encoding/o200k_base')
  // Count the model's special tokens as ordinary text.
  const countPiece = (text: string) => countTokens(text, { disallowedSpecial: new Set() })
  // Count in slices: the time for a single word grows with the square of its length.
  const count = (text: string) => {
    let sum = 0
    for (let at = 0; at < text.length; at += SLICE) sum += countPiece(text.slice(at, at + SLICE))
    return sum
  }
  return (text) => {
    if (text.length <= COUNTED_CHARACTERS) return count(text)
    return Math.ceil((count(text.slice(0, COUNTED_CHARACTERS)) * text.length) / COUNTED_CHARACTERS)
  }
}
