import { functionCall, item, type ModelEvent, message, response } from '../support/model-server.ts'

/** Streams as providers send them, including their known deviations. */
export const streams: Record<string, ModelEvent[]> = {
  'plain text': numbered(response(message(0, 'There are three.'))),

  'text without sequence numbers or deltas': response([
    {
      type: 'response.output_item.done',
      output_index: 0,
      item: {
        id: 'msg_a',
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [
          {
            type: 'output_text',
            text: 'Only at the end.',
            annotations: [{ type: 'url_citation', url: 'https://example.org' }],
          },
        ],
      },
    },
  ]),

  'item ids that rotate on one output_index': numbered(
    response([
      {
        type: 'response.output_item.added',
        output_index: 0,
        item: { id: 'a', type: 'reasoning', summary: [] },
      },
      {
        type: 'response.reasoning_summary_part.added',
        output_index: 0,
        item_id: 'b',
        summary_index: 0,
        part: { type: 'summary_text', text: '' },
      },
      {
        type: 'response.reasoning_summary_text.delta',
        output_index: 0,
        item_id: 'c',
        summary_index: 0,
        delta: 'Counting',
      },
      {
        type: 'response.reasoning_summary_part.done',
        output_index: 0,
        item_id: 'd',
        summary_index: 0,
        part: { type: 'summary_text', text: 'Counting' },
      },
      {
        type: 'response.output_item.done',
        output_index: 0,
        item: { id: 'e', type: 'reasoning', summary: [{ type: 'summary_text', text: 'Counting' }] },
      },
      {
        type: 'response.output_item.added',
        output_index: 1,
        item: { id: 'f', type: 'message', role: 'assistant', status: 'in_progress', content: [] },
      },
      { type: 'response.output_text.delta', output_index: 1, item_id: 'g', content_index: 0, delta: 'One ' },
      { type: 'response.output_text.delta', output_index: 1, item_id: 'h', content_index: 0, delta: 'two.' },
      {
        type: 'response.output_item.done',
        output_index: 1,
        item: {
          id: 'i',
          type: 'message',
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', text: 'One two.', annotations: [] }],
        },
      },
    ]),
  ),

  'several function calls in one response, then text': [
    ...numbered(
      response([
        ...functionCall(0, 'read_file', { path: 'missing.txt' }, 'call_one'),
        ...functionCall(1, 'set_title', { title: 'Golden', api_key: 'sk-hidden' }, 'call_two'),
      ]),
    ),
    ...numbered(response(message(0, 'Done.'))),
  ],

  'a call to an unknown custom tool': [
    ...response(
      item(
        0,
        { id: 'ct_1', type: 'custom_tool_call', call_id: 'call_sql', name: 'write_sql', input: 'SELECT 1' },
        [
          { type: 'response.custom_tool_call_input.delta', delta: 'SELECT ' },
          { type: 'response.custom_tool_call_input.delta', delta: '1' },
        ],
      ),
    ),
    ...response(message(0, 'Then not.')),
  ],

  'provider-run code interpreter': response([
    ...item(
      0,
      {
        id: 'ci_1',
        type: 'code_interpreter_call',
        code: 'print(1)',
        container_id: 'cntr_1',
        outputs: [{ type: 'logs', logs: '1' }],
      },
      [
        { type: 'response.code_interpreter_call.in_progress' },
        { type: 'response.code_interpreter_call_code.delta', delta: 'print(' },
        { type: 'response.code_interpreter_call_code.delta', delta: '1)' },
        { type: 'response.code_interpreter_call_code.done', code: 'print(1)' },
        { type: 'response.code_interpreter_call.interpreting' },
        { type: 'response.code_interpreter_call.completed' },
      ],
    ),
    ...message(1, 'It is 1.'),
  ]),

  'web and file search': response([
    ...item(
      0,
      {
        id: 'ws_1',
        type: 'web_search_call',
        action: { type: 'search', query: 'news', sources: [{ type: 'url', url: 'https://example.org' }] },
      },
      [
        { type: 'response.web_search_call.in_progress' },
        { type: 'response.web_search_call.searching' },
        { type: 'response.web_search_call.completed' },
      ],
    ),
    ...item(
      1,
      {
        id: 'fs_1',
        type: 'file_search_call',
        queries: ['embedding'],
        results: Array.from({ length: 12 }, (_, index) => ({
          file_id: `f${index}`,
          filename: 'a.pdf',
          score: 0.5,
          text: 'x'.repeat(3000),
        })),
      },
      [{ type: 'response.file_search_call.searching' }, { type: 'response.file_search_call.completed' }],
    ),
    ...message(2, 'Found.'),
  ]),

  'provider-side MCP server': response([
    ...item(0, { id: 'mcpl_1', type: 'mcp_list_tools', server_label: 'zip', tools: [{ name: 'shorten' }] }),
    ...item(
      1,
      {
        id: 'mcp_1',
        type: 'mcp_call',
        name: 'shorten',
        server_label: 'zip',
        arguments: '{"url":"x","token":"t"}',
        output: 'https://s/1',
      },
      [
        { type: 'response.mcp_call.in_progress' },
        { type: 'response.mcp_call_arguments.delta', delta: '{"url":"x","tok' },
        { type: 'response.mcp_call_arguments.delta', delta: 'en":"t"}' },
        { type: 'response.mcp_call.completed' },
      ],
    ),
    ...item(2, {
      id: 'mcpr_1',
      type: 'mcp_approval_request',
      name: 'delete',
      server_label: 'zip',
      arguments: '{"id":1}',
    }),
  ]),

  'provider-side shell': response([
    ...item(0, { id: 'sh_1', type: 'shell_call', call_id: 'call_sh', action: { commands: ['ls', 'pwd'] } }, [
      { type: 'response.shell_call_command.added', command_index: 0, command: '' },
      { type: 'response.shell_call_command.delta', command_index: 0, delta: 'ls' },
      { type: 'response.shell_call_command.added', command_index: 1, command: 'pwd' },
    ]),
    ...item(
      1,
      {
        id: 'sho_1',
        type: 'shell_call_output',
        call_id: 'call_sh',
        output: [{ stdout: 'a.txt\n', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
      },
      [{ type: 'response.shell_call_output_content.delta', command_index: 0, delta: { stdout: 'a.txt\n' } }],
    ),
    ...message(2, 'One file.'),
  ]),

  'image generation': response([
    ...item(
      0,
      {
        id: 'ig_1',
        type: 'image_generation_call',
        result: 'QUJD'.repeat(50_000),
        output_format: 'png',
        size: '1024x1024',
      },
      [
        { type: 'response.image_generation_call.in_progress' },
        { type: 'response.image_generation_call.generating' },
        {
          type: 'response.image_generation_call.partial_image',
          partial_image_index: 0,
          partial_image_b64: 'QUJD',
        },
        { type: 'response.image_generation_call.completed' },
      ],
    ),
  ]),

  'a refusal': response([
    ...item(
      0,
      {
        id: 'msg_r',
        type: 'message',
        role: 'assistant',
        content: [{ type: 'refusal', refusal: 'I will not.' }],
      },
      [
        { type: 'response.refusal.delta', content_index: 0, delta: 'I will ' },
        { type: 'response.refusal.delta', content_index: 0, delta: 'not.' },
        { type: 'response.refusal.done', content_index: 0, refusal: 'I will not.' },
      ],
    ),
  ]),

  'open-model reasoning and unknown events': response([
    ...item(0, { id: 'rs_1', type: 'reasoning', summary: [] }, [
      { type: 'response.reasoning_text.delta', content_index: 0, delta: 'Hm.' },
    ]),
    { type: 'response.telepathy.delta', output_index: 1, delta: 'x' },
    ...item(1, { id: 'tp_1', type: 'telepathy', payload: { a: 1 } }),
    ...message(2, 'Well.'),
  ]),

  'truncated answer': [
    ...response(message(0, 'As far as')).slice(0, -1),
    {
      type: 'response.incomplete',
      response: {
        id: 'resp_i',
        status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
        output: [],
      },
    },
  ],

  'quota exceeded': [
    ...response([]).slice(0, 1),
    {
      type: 'error',
      error: { type: 'insufficient_quota', code: 'insufficient_quota', message: 'You exceeded your quota.' },
    },
  ],
}

function numbered(events: ModelEvent[]): ModelEvent[] {
  return events.map((event, sequence_number) => ({ ...event, sequence_number }))
}
