import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { OpenStore, TestStore } from '../../test/support/stores.ts'
import type { IndexStore, NewChunk } from '../core/retrieval.ts'
import { createIndexStore } from './chunk-index.ts'

const chunk = (id: string, text: string): NewChunk => ({
  id,
  startLine: 1,
  endLine: 1,
  text,
  words: text.toLowerCase(),
})
const file = (path: string, sha256 = 'x') => ({ path, sha256, language: 'typescript' })
const vector = (...floats: number[]) => Float32Array.from(floats)

/** The contract of the index store, for every engine. */
export function describeIndex(engineName: string, open: OpenStore): void {
  describe(`the index on ${engineName}`, () => {
    let store: TestStore
    let index: IndexStore
    beforeEach(async () => {
      store = await open()
      index = createIndexStore(store.database)
    })
    afterEach(() => store.close())

    const where = { scopes: ['w'], paths: null, limit: 10 }
    const byWords = async (terms: string[], more = {}) =>
      (await index.searchWords({ ...where, terms, ...more })).map((hit) => hit.id)
    const byVector = async (...floats: number[]) =>
      (
        await index.searchVectors({ ...where, vector: vector(...floats), embedder: 'e', minLikeness: -1 })
      ).map((hit) => hit.id)

    it('[C7] finds a file by its words until it is replaced or removed', async () => {
      await index.put('w', file('a.ts'), [chunk('a1', 'open the door'), chunk('a2', 'close the window')])
      await index.put('w', file('b.ts'), [chunk('b1', 'the door is green')])
      await index.put('other', file('a.ts'), [chunk('x', 'the door elsewhere')])
      expect((await byWords(['door'])).toSorted()).toEqual(['a1', 'b1'])
      expect(await byWords(['window', 'close'])).toEqual(['a2'])
      expect(await byWords(['door'], { paths: ['b.ts'] })).toEqual(['b1'])
      expect(await byWords(['nothing'])).toEqual([])
      await index.put('w', file('a.ts', 'y'), [chunk('a3', 'a gate')])
      expect(await byWords(['door'])).toEqual(['b1'])
      expect(await index.files('w')).toEqual([file('a.ts', 'y'), file('b.ts')])
      await index.remove('w', ['a.ts', 'b.ts', 'never.ts'])
      expect(await byWords(['gate', 'door'])).toEqual([])
      expect(await index.files('w')).toEqual([])
    })

    it('ranks chunks that match more words first', async () => {
      const filler = 'and some more words that say nothing about it at all'
      await index.put('w', file('a.ts'), [
        chunk('few', `door ${filler}`),
        chunk('many', `door green handle ${filler}`),
      ])
      expect(await byWords(['door', 'green', 'handle'])).toEqual(['many', 'few'])
    })

    it('finds chunks by vector, nearest first, for one embedder only', async () => {
      await index.put(
        'w',
        file('a.ts'),
        ['near', 'far', 'other'].map((id) => chunk(id, id)),
      )
      const waiting = await index.unembedded('e', 10)
      expect(waiting.map((one) => one.text).toSorted()).toEqual(['far', 'near', 'other'])
      const noOf = (text: string) => waiting.find((one) => one.text === text)?.no ?? 0
      await index.setVectors('e', [
        { no: noOf('near'), vector: vector(1, 0.1, 0) },
        { no: noOf('far'), vector: vector(0, 1, 0) },
      ])
      await index.setVectors('another', [{ no: noOf('other'), vector: vector(1, 0, 0, 0) }])
      expect(await byVector(1, 0, 0)).toEqual(['near', 'far'])
      expect((await index.unembedded('e', 10)).map((one) => one.text)).toEqual(['other'])
      // An unchanged chunk keeps its vector.
      await index.put('w', file('a.ts', 'y'), [chunk('near', 'near'), chunk('new', 'new')])
      expect(await byVector(1, 0, 0)).toEqual(['near'])
    })

    it('accepts any text and any search terms', async () => {
      const odd = 'NUL \u0000, lone \ud800, "quotes" \' \\ & | ! ( ) : * emoji 🙂'
      await index.put('w', file('odd.ts'), [{ ...chunk('odd', odd), words: odd.toLowerCase() }])
      expect(await byWords(['quotes'])).toEqual(['odd'])
      expect(await byWords(['"', "'", '\\', 'a"b'])).toEqual([])
    })
  })
}
