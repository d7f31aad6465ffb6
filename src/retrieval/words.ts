/** Stop words: they occur in most questions and files, or are only polite. */
const COMMON = new Set(
  'a again am an and any are as at be bye but by can could did do does for from good great has have hello help hey hi how i if in into is it its just me my no not now of ok okay on or please should so some sure tell thank thanks that the their then there these they this to us was we well were what when where which who why will with would yes you your'.split(
    ' ',
  ),
)

/** Splits a text into search words; identifiers also give their parts: `readFile` gives readfile, read and file. */
export function wordsOf(text: string): string[] {
  const words: string[] = []
  for (const [name] of text.matchAll(/[\p{L}\p{N}_]+/gu)) {
    const parts = name
      .replaceAll('_', ' ')
      .replaceAll(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2')
      .replaceAll(/(\p{Lu}+)(\p{Lu}\p{Ll})/gu, '$1 $2')
      .toLowerCase()
      .split(' ')
      .filter(Boolean)
    const whole = parts.join('')
    if (parts.length > 1) words.push(whole)
    for (const part of parts) words.push(part, ...stemOf(part))
  }
  return words
}

/** The search terms of a question: each word once, without stop words. */
export function termsOf(question: string): string[] {
  const terms = new Set(
    wordsOf(question).filter((word) => word.length > 1 && word.length < 60 && !COMMON.has(word)),
  )
  return [...terms].slice(0, MOST_TERMS)
}

const MOST_TERMS = 64

/** Removes common endings, roughly, so that `retries` matches `retry` and `locked` matches `lock`. */
function stemOf(word: string): string[] {
  if (word.length < 5) return []
  const stem = word
    .replace(/ies$/, 'y')
    .replace(/(ing|ed|es|s)$/, '')
    .replace(/([^aeiou])\1$/, '$1')
  return stem === word || stem.length < 3 ? [] : [stem]
}
