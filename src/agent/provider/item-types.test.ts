import type { ResponseOutputItem } from 'openai/resources/responses/responses'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  item,
  type ModelRequestBody,
  type ModelServer,
  message,
  type Part,
  response,
  says,
  startModelServer,
} from '../../../test/support/model-server.ts'
import { approve, ask, frameWhen, ofKind, runsOf, toolsOf, transcriptOf } from '../../../test/support/runs.ts'
import { startTestServer, type TestServer } from '../../../test/support/server.ts'
import type { AnyFrame } from '../../protocol/frames.ts'
import type { ToolItem } from '../../replay/transcript.ts'

type ItemOf<T extends ResponseOutputItem['type']> = Extract<ResponseOutputItem, { type: T }>
type Example<T extends ResponseOutputItem['type']> = {
  /** The finished item, as the provider sends it. */
  item: ItemOf<T>
  /** Items that come before it in the same response. */
  before?: ResponseOutputItem[]
  /** Text that the card must show in its input and in its output. */
  input?: string
  output?: string
  phase?: ToolItem['phase']
  /** The item that the next request must contain. */
  answer?: object
}

const shellCall = { type: 'shell_call', id: 'sh_1', call_id: 'call_sh', environment: null } as const
const shell: ItemOf<'shell_call'> = {
  ...shellCall,
  status: 'completed',
  action: { commands: ['ls -la'], timeout_ms: null, max_output_length: null },
}
const patch: ItemOf<'apply_patch_call'> = {
  type: 'apply_patch_call',
  id: 'ap_1',
  call_id: 'call_ap',
  status: 'completed',
  operation: { type: 'update_file', path: 'a.txt', diff: '@@\n-old\n+new' },
}
const localShell: ItemOf<'local_shell_call'> = {
  type: 'local_shell_call',
  id: 'ls_1',
  call_id: 'call_ls',
  status: 'completed',
  action: { type: 'exec', command: ['make', 'all'], env: {} },
}
const computer: ItemOf<'computer_call'> = {
  type: 'computer_call',
  id: 'cu_1',
  call_id: 'call_cu',
  status: 'completed',
  pending_safety_checks: [],
  action: { type: 'screenshot' },
}
const search: ItemOf<'tool_search_call'> = {
  type: 'tool_search_call',
  id: 'ts_1',
  call_id: null,
  execution: 'server',
  status: 'completed',
  arguments: { query: 'calendar' },
}
const program: ItemOf<'program'> = {
  type: 'program',
  id: 'pr_1',
  call_id: 'call_pr',
  code: 'tools.add(1, 2)',
  fingerprint: 'f1',
}
const custom: ItemOf<'custom_tool_call'> = {
  type: 'custom_tool_call',
  id: 'ct_1',
  call_id: 'call_ct',
  name: 'sql',
  input: 'select 1',
}
const called: ItemOf<'function_call'> = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_fc',
  name: 'lookup',
  arguments: '{"key":"blue"}',
  status: 'completed',
}

/** One for each type in the SDK's union: a new type does not compile until it has an example. */
const examples: { [T in ResponseOutputItem['type']]: Example<T> | null } = {
  // Not tools; test/golden covers them.
  message: null,
  reasoning: null,
  function_call: {
    item: called,
    input: 'blue',
    output: 'no tool named lookup',
    phase: 'failed',
    answer: { type: 'function_call_output', call_id: 'call_fc' },
  },
  function_call_output: {
    before: [called],
    item: {
      type: 'function_call_output',
      id: 'fo_1',
      call_id: 'call_fc',
      output: 'found it',
      status: 'completed',
    },
    input: 'blue',
    output: 'found it',
  },
  custom_tool_call: {
    item: custom,
    input: 'select 1',
    output: 'no tool named sql',
    phase: 'failed',
    answer: { type: 'custom_tool_call_output', call_id: 'call_ct' },
  },
  custom_tool_call_output: {
    before: [custom],
    item: {
      type: 'custom_tool_call_output',
      id: 'co_1',
      call_id: 'call_ct',
      output: 'one row',
      status: 'completed',
    },
    input: 'select 1',
    output: 'one row',
  },
  shell_call: {
    item: shell,
    input: 'ls -la',
    output: 'no tool named shell',
    phase: 'failed',
    answer: { type: 'shell_call_output', call_id: 'call_sh' },
  },
  shell_call_output: {
    before: [shell],
    item: {
      type: 'shell_call_output',
      id: 'so_1',
      call_id: 'call_sh',
      max_output_length: null,
      status: 'completed',
      output: [{ stdout: 'total 0', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
    },
    input: 'ls -la',
    output: 'total 0',
  },
  local_shell_call: {
    item: localShell,
    input: 'make',
    output: 'no tool named local_shell',
    phase: 'failed',
    answer: { type: 'local_shell_call_output', id: 'call_ls' },
  },
  local_shell_call_output: {
    before: [localShell],
    // This type has no call id: its id is the call's.
    item: { type: 'local_shell_call_output', id: 'call_ls', output: 'built', status: 'completed' },
    input: 'make',
    output: 'built',
  },
  apply_patch_call: {
    item: patch,
    input: '+new',
    output: 'no tool named apply_patch',
    phase: 'failed',
    answer: { type: 'apply_patch_call_output', call_id: 'call_ap', status: 'failed' },
  },
  apply_patch_call_output: {
    before: [patch],
    item: {
      type: 'apply_patch_call_output',
      id: 'ao_1',
      call_id: 'call_ap',
      status: 'failed',
      output: 'hunk 1 does not apply',
    },
    input: '+new',
    output: 'hunk 1 does not apply',
    phase: 'failed',
  },
  computer_call: {
    item: computer,
    input: 'screenshot',
    output: 'no tool named computer',
    phase: 'failed',
    answer: { type: 'computer_call_output', call_id: 'call_cu' },
  },
  computer_call_output: {
    before: [computer],
    item: {
      type: 'computer_call_output',
      id: 'cuo_1',
      call_id: 'call_cu',
      status: 'completed',
      output: { type: 'computer_screenshot', file_id: 'file_9' },
    },
    input: 'screenshot',
    output: 'file_9',
  },
  tool_search_call: { item: search, input: 'calendar' },
  tool_search_output: {
    before: [search],
    item: {
      type: 'tool_search_output',
      id: 'to_1',
      call_id: null,
      execution: 'server',
      status: 'completed',
      tools: [{ type: 'function', name: 'add_event', parameters: null, strict: null }],
    },
    input: 'calendar',
    output: 'add_event',
  },
  program: { item: program, input: 'tools.add(1, 2)' },
  program_output: {
    before: [program],
    item: { type: 'program_output', id: 'po_1', call_id: 'call_pr', result: 'three', status: 'incomplete' },
    input: 'tools.add(1, 2)',
    output: 'three',
    phase: 'failed',
  },
  additional_tools: {
    item: {
      type: 'additional_tools',
      id: 'at_1',
      role: 'assistant',
      tools: [{ type: 'function', name: 'more', parameters: null, strict: null }],
    },
    output: 'more',
  },
  compaction: { item: { type: 'compaction', id: 'cm_1', encrypted_content: 'opaque' } },
  image_generation_call: {
    item: {
      type: 'image_generation_call',
      id: 'ig_1',
      result: null,
      status: 'failed',
      error: { code: null, message: 'not allowed', param: null, type: 'moderation' },
    },
    output: 'not allowed',
    phase: 'failed',
  },
  code_interpreter_call: {
    item: {
      type: 'code_interpreter_call',
      id: 'ci_1',
      code: 'print(1)',
      container_id: 'c1',
      status: 'incomplete',
      outputs: [{ type: 'logs', logs: 'one' }],
    },
    input: 'print(1)',
    output: 'one',
    phase: 'failed',
  },
  file_search_call: {
    item: {
      type: 'file_search_call',
      id: 'fs_1',
      queries: ['basket'],
      status: 'completed',
      results: [{ file_id: 'f1', filename: 'cart.md', score: 1, text: 'the cart' }],
    },
    input: 'basket',
    output: 'the cart',
  },
  web_search_call: {
    item: {
      type: 'web_search_call',
      id: 'ws_1',
      status: 'completed',
      action: { type: 'search', query: 'weather' },
    },
    input: 'weather',
  },
  mcp_call: {
    item: {
      type: 'mcp_call',
      id: 'mc_1',
      name: 'roll',
      server_label: 'dice',
      arguments: '{"sides":6}',
      output: 'four',
      status: 'completed',
    },
    input: '6',
    output: 'four',
  },
  mcp_list_tools: {
    item: {
      type: 'mcp_list_tools',
      id: 'ml_1',
      server_label: 'dice',
      tools: [{ name: 'roll', input_schema: {} }],
    },
    output: 'roll',
  },
  // A person answers these; see below.
  mcp_approval_request: null,
  mcp_approval_response: {
    item: {
      type: 'mcp_approval_response',
      id: 'mr_1',
      approval_request_id: 'mcpr_0',
      approve: true,
      reason: 'known server',
    },
    output: 'known server',
  },
}

const parts: Part[] = []
let model: ModelServer
let server: TestServer
beforeAll(async () => {
  model = await startModelServer(parts)
  server = await startTestServer({ baseUrl: model.url, tools: { dice__cheat: 'deny' } })
})
afterAll(async () => {
  await server.close()
  await model.close()
})

const cases = Object.entries(examples).flatMap(([type, example]) =>
  example ? [[type, example as Example<ResponseOutputItem['type']>] as const] : [],
)

describe('[L6] [L10] items of every type', () => {
  it.each(cases)('shows a card for %s with input, output and end, and answers it', async (_type, example) => {
    const items = [...(example.before ?? []), example.item]
    const events = response(items.flatMap((one, index) => item(index, one as never)))
    const { frames, requests } = await play({ events })

    const [run] = runsOf(transcriptOf(frames))
    const cards = toolsOf(run)
    expect(cards).toHaveLength(1)
    const [card] = cards as [ToolItem]
    const input = [card.argumentsText, card.code, card.details].map(asText).join('')
    if (example.input !== undefined) expect(input).toContain(example.input)
    if (example.output !== undefined) expect(asText(card.output)).toContain(example.output)
    expect(card.phase).toBe(example.phase ?? 'output')
    expect(card.endedAt).not.toBeNull()

    // The provider refuses every later request if a call stays unanswered.
    expect(requests).toHaveLength(example.answer ? 2 : 1)
    if (example.answer) expect(requests[1]?.input).toContainEqual(expect.objectContaining(example.answer))
  })

  it('answers a call of an unknown type by its call id', async () => {
    const unknown = {
      type: 'teleport_call',
      id: 'tp_1',
      call_id: 'call_tp',
      destination: 'Vienna',
      parameters: { speed: 3 },
    }
    const { frames, requests } = await play({ events: response(item(0, unknown)) })
    const [card] = toolsOf(runsOf(transcriptOf(frames))[0])
    expect(card).toMatchObject({ toolType: 'teleport', phase: 'failed' })
    expect(card?.argumentsText).toContain('Vienna')
    expect(asText(card?.output)).toContain('no tool named teleport')
    expect(requests[1]?.input).toContainEqual(
      expect.objectContaining({ type: 'teleport_call_output', call_id: 'call_tp' }),
    )
  })

  it('continues after an item that LangGraph would deserialize as one of its own objects', async () => {
    const secret = { lc: 1, type: 'secret', id: ['HOME'] }
    const planted = {
      lc: 1,
      type: 'constructor',
      id: ['langchain_core', 'messages', 'AIMessage'],
      kwargs: { content: secret },
    }
    parts.push({ events: response(item(0, { type: 'mood', id: 'mo_2', planted })) })
    const { id } = await server.client.createConversation()
    await ask(server, id, 'go')
    const frames = await ask(server, id, 'and again')
    expect(frames.at(-1)?.kind).toBe('final')
  })

  it('shows an unknown item that is not a call with all its fields, and continues', async () => {
    const unknown = { type: 'mood', id: 'mo_1', feeling: 'curious', api_key: 'sk-hidden' }
    const events = response([...item(0, unknown), ...message(1, 'Hello.')])
    const { frames, requests } = await play({ events })
    const [card] = toolsOf(runsOf(transcriptOf(frames))[0])
    expect(card).toMatchObject({ toolType: 'mood', phase: 'output' })
    expect(asText(card?.output)).toContain('curious')
    expect(JSON.stringify(frames)).not.toContain('sk-hidden')
    expect(requests).toHaveLength(1)
  })
})

describe('an approval that the provider requests', () => {
  const request = {
    type: 'mcp_approval_request',
    id: 'mcpr_1',
    name: 'roll',
    server_label: 'dice',
    arguments: '{"sides":6}',
  }

  it.each([true, false])('asks the person and sends the answer back (%s)', async (approved) => {
    parts.push({ events: response(item(0, request)) }, { events: says('Rolled.') })
    const before = model.requests.length
    const { id } = await server.client.createConversation()
    const { run_id } = await server.client.sendMessage(id, { content: 'go' })
    const asked = await frameWhen(server, id, 'tool.approval')
    expect(asked).toMatchObject({ tool_call_id: 'mcpr_1', tool_name: 'dice__roll', status: 'requested' })
    const question = await server.client.question(id, run_id, 'mcpr_1')
    expect(question).toMatchObject({ tool_name: 'dice__roll', arguments: '{"sides":6}' })
    if (approved) await approve(server.client, id, run_id, 'mcpr_1')
    else {
      await server.client.answerApproval(id, run_id, {
        tool_call_id: 'mcpr_1',
        approved: false,
        reason: 'not today',
      })
    }
    await frameWhen(server, id, 'final')

    const answer = { type: 'mcp_approval_response', approval_request_id: 'mcpr_1', approve: approved }
    expect(model.requests[before + 1]?.input).toContainEqual(expect.objectContaining(answer))
    const frames = await server.client.transcript(id).next()
    const [card] = toolsOf(runsOf(frames.value as never)[0])
    expect(card?.approval?.status).toBe(approved ? 'approved' : 'denied')
    expect(card?.endedAt).not.toBeNull()
  })

  it('does not ask when the settings deny the tool', async () => {
    const { frames, requests } = await play({ events: response(item(0, { ...request, name: 'cheat' })) })
    expect(ofKind(frames, 'tool.approval').map((frame) => frame.status)).toEqual(['denied'])
    expect(requests[1]?.input).toContainEqual(
      expect.objectContaining({ approval_request_id: 'mcpr_1', approve: false }),
    )
  })
})

/** Sends one message, and returns the frames of its run and the requests to the model. */
async function play(part: Part): Promise<{ frames: AnyFrame[]; requests: ModelRequestBody[] }> {
  parts.push(part)
  const before = model.requests.length
  const { id } = await server.client.createConversation()
  const frames = await ask(server, id, 'go')
  return { frames, requests: model.requests.slice(before) }
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}
