import { expect, it } from 'vitest'
import { matchPaths } from './match-paths.ts'

const paths = [
  'README.md',
  'src/basket.ts',
  'src/basket.test.ts',
  'src/shop/cart.ts',
  'test/BASE.txt',
  'docs/a-b.md',
]

it('ranks names by prefix first, then names and paths that contain the text, then its letters in order', () => {
  expect(matchPaths(paths, 'bas', 10)).toEqual(['src/basket.ts', 'test/BASE.txt', 'src/basket.test.ts'])
  expect(matchPaths(paths, 'src/', 10)).toEqual(['src/basket.ts', 'src/shop/cart.ts', 'src/basket.test.ts'])
  expect(matchPaths(paths, 'shop', 10)).toEqual(['src/shop/cart.ts'])
  expect(matchPaths(paths, 'sct', 10)).toEqual(['src/basket.ts', 'src/shop/cart.ts', 'src/basket.test.ts'])
  expect(matchPaths(paths, '', 2)).toEqual(['README.md', 'src/basket.ts'])
  expect(matchPaths(paths, 'nothing like it', 10)).toEqual([])
})
