import { describe, expect, it } from 'vitest'
import { formatCursor, parseCursor } from './cursor.ts'
import { frameKinds, isTerminalKind } from './frame-kinds.ts'
import { parseFrame } from './frames.ts'
import { isId, makeId, newId } from './ids.ts'

const envelope = {
  schema: 'public_sse_v1',
  event_id: 1,
  conversation_id: 'conv_a',
  stream_id: null,
  sequence_number: null,
  server_timestamp: '2026-01-01T00:00:00.000Z',
}

describe('ids', () => {
  it('sort by time and never repeat', () => {
    const random = new Uint8Array(16)
    const times = [0, 1, 31, 32, 1_700_000_000_000, 1_700_000_000_001]
    const ids = times.map((time) => makeId('conv', time, random))
    expect([...ids].sort((a, b) => (a < b ? -1 : 1))).toEqual(ids)
    expect(new Set(Array.from({ length: 1000 }, () => newId('run'))).size).toBe(1000)
  })

  it('are recognized by their prefix', () => {
    expect(isId('conv', newId('conv'))).toBe(true)
    expect(isId('conv', newId('run'))).toBe(false)
    expect(isId('conv', 'conv_short')).toBe(false)
  })
})

describe('cursors', () => {
  it('survive formatting and parsing', () => {
    const cursor = { segmentId: newId('seg'), seq: 42 }
    expect(parseCursor(formatCursor(cursor))).toEqual(cursor)
  })

  it.each(['', '.', 'x.1', newId('seg'), `${newId('seg')}.`, `${newId('seg')}.01`, `${newId('seg')}.1e3`])(
    'do not parse from %j',
    (text) => expect(parseCursor(text)).toBeNull(),
  )
})

describe('frames', () => {
  it('[L10] of an unknown kind parse and keep every field', () => {
    const frame = { ...envelope, kind: 'quantum.leap', leap: { far: true } }
    expect(parseFrame(frame)).toEqual(frame)
  })

  it('[L10] keep unknown fields of a known kind', () => {
    const frame = { ...envelope, kind: 'lifecycle', status: 'queued', mood: 'good' }
    expect(parseFrame(frame)).toEqual(frame)
  })

  it.each([
    ['a wrong schema', { ...envelope, schema: 'other', kind: 'lifecycle', status: 'queued' }],
    ['no kind', { ...envelope }],
    ['an unknown status', { ...envelope, kind: 'lifecycle', status: 'sleepy' }],
    ['a missing field', { ...envelope, kind: 'message.delta', output_index: 0, item_id: 'x', delta: '' }],
    ['an event number of 0', { ...envelope, event_id: 0, kind: 'lifecycle', status: 'queued' }],
  ])('with %s are refused', (_, frame) => expect(() => parseFrame(frame)).toThrow())

  it('have the kinds of the specification, two of them terminal', () => {
    expect(frameKinds).toHaveLength(36)
    expect(frameKinds.filter(isTerminalKind)).toEqual(['final', 'error'])
  })
})
