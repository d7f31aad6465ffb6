import { describe, expect, it } from 'vitest'
import { responses } from './responses.ts'

describe('an item that is sent to a Responses server again', () => {
  it('[C4] has no ids that only the server that made it can look up', () => {
    const call = {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'c',
      name: 'f',
      arguments: '{}',
      status: 'completed',
    }
    expect(responses.sendable(call)).toEqual({
      type: 'function_call',
      call_id: 'c',
      name: 'f',
      arguments: '{}',
    })
    const message = {
      type: 'message',
      id: 'msg_1',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'Done.', annotations: [] }],
    }
    expect(responses.sendable(message)).toEqual({ role: 'assistant', content: 'Done.' })
  })

  it('[C4] is left out if it is reasoning, or a tool that a server of another protocol ran', () => {
    expect(responses.sendable({ type: 'reasoning', id: 'rs_1', summary: [] })).toBeNull()
    const native = { protocol: 'anthropic', value: {} }
    expect(responses.sendable({ type: 'web_search_call', id: 'ws_1', native })).toBeNull()
  })
})
