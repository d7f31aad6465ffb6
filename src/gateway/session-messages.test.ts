import { describe, expect, it } from 'vitest'
import { type ReadRequest, type RequestItem, readRequest } from './request-items.ts'
import { createSessionMessages } from './session-messages.ts'

const user = (text: string): RequestItem => ({ type: 'user', text })
const assistant = (text: string): RequestItem => ({ type: 'assistant', text })
const output = (callId: string, text: string): RequestItem => ({ type: 'output', callId, text })
const call = (callId: string): RequestItem => ({ type: 'call', callId, name: 'shell', length: 1 })
const request = (...items: RequestItem[]): ReadRequest => ({
  model: '',
  instructions: 0,
  tools: { count: 1, length: 1 },
  items,
})

describe('session messages', () => {
  it('[G4] take the text at the end of a request, without blocks that the agent wraps in tags', () => {
    const session = createSessionMessages()
    const wrapped = user('<system-reminder>\nremember\n</system-reminder>\n')
    expect(session.take(request(wrapped, user('first'))).message).toBe('first')
    expect(session.take(request(wrapped, user('first'), assistant('yes'), user('second'))).message).toBe(
      'second',
    )
    expect(session.take(request(wrapped, user('first'), assistant('yes'), user('second'))).message).toBeNull()
  })

  it('[G4] take the same words again when they are typed again', () => {
    const session = createSessionMessages()
    const once = [user('yes'), assistant('done'), assistant('more')]
    expect(session.take(request(user('yes'))).message).toBe('yes')
    expect(session.take(request(...once, user('yes'))).message).toBe('yes')
    // The agent has summarized its history meanwhile.
    expect(session.take(request(user('summary'), assistant('ok'), user('yes'))).message).toBe('yes')
  })

  it('[G4] take an outcome for each call, even if calls share an id', () => {
    const session = createSessionMessages()
    const first = [user('go'), call('call_0'), output('call_0', 'one')]
    expect(session.take(request(...first)).outputs.map(({ text }) => text)).toEqual(['one'])
    const second = [...first, call('call_0'), output('call_0', 'two')]
    expect(session.take(request(...second)).outputs.map(({ text }) => text)).toEqual(['two'])
  })

  it('[G2] take a text that is crafted to make matching slow', () => {
    const text = `<${'a'.repeat(200_000)}>${'</'.repeat(100_000)} x`
    expect(
      createSessionMessages()
        .take(request(user(text)))
        .message?.startsWith('<aaa'),
    ).toBe(true)
  })

  it('[G2] find no items in a request of another form', () => {
    for (const body of [
      '[]',
      'null',
      '{"input":{}}',
      '{"input":[[[]]]}',
      '{"messages":[{"role":"user","content":5}]}',
      '{',
    ]) {
      expect(readRequest('responses', body).items).toEqual([])
      expect(readRequest('anthropic', body).items).toEqual([])
    }
  })
})
