// An agent for tests that knows nothing of Waymark: it reads a message from each line of its arguments, sends its whole history
// to the server at OPENAI_BASE_URL or ANTHROPIC_BASE_URL, and runs the commands that the model asks for. A real process.
import { execSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'

const protocol = process.env.PROTOCOL ?? 'responses'
const session = process.env.SESSION ?? randomUUID()
const key = process.env.AGENT_KEY ?? 'key-of-the-agent'

interface Call {
  id: string
  command: string
}

const adapters = {
  responses: {
    url: `${process.env.OPENAI_BASE_URL}/responses`,
    body: () => ({
      input: history,
      tools: [{ type: 'function', name: 'shell', parameters: {} }],
      stream: true,
    }),
    said: (text: string) => ({ role: 'user', content: text }),
    outcome: ({ id }: Call, output: string) => ({ type: 'function_call_output', call_id: id, output }),
    read(events: Record<string, never>[]): Call[] {
      const items = events.flatMap((event: { type?: string; item?: Item }) =>
        event.type === 'response.output_item.done' && event.item ? [event.item] : [],
      )
      history.push(...items.filter((item) => item.type !== 'reasoning'))
      return items.flatMap((item) =>
        item.type === 'function_call' ? [{ id: item.call_id, command: commandIn(item.arguments) }] : [],
      )
    },
  },
  anthropic: {
    url: `${process.env.ANTHROPIC_BASE_URL}/v1/messages`,
    body: () => ({
      messages: history,
      max_tokens: 1000,
      tools: [{ name: 'shell', input_schema: { type: 'object' } }],
      stream: true,
    }),
    said: (text: string) => ({ role: 'user', content: [{ type: 'text', text }] }),
    outcome: ({ id }: Call, output: string) => ({
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: id, content: output }],
    }),
    read(events: Record<string, never>[]): Call[] {
      const blocks: (Record<string, unknown> & { json: string })[] = []
      for (const event of events as Record<string, unknown>[]) {
        const block = event.content_block as Record<string, unknown> | undefined
        const delta = event.delta as { text?: string; partial_json?: string } | undefined
        if (block) blocks.push({ ...block, json: '' })
        const last = blocks.at(-1)
        if (last && delta?.text !== undefined) last.text = String(last.text) + delta.text
        if (last && delta?.partial_json !== undefined) last.json += delta.partial_json
      }
      const content = blocks.map(({ json, ...block }) =>
        block.type === 'tool_use' ? { ...block, input: JSON.parse(json || '{}') as unknown } : block,
      )
      history.push({ role: 'assistant', content })
      return blocks.flatMap((block) =>
        block.type === 'tool_use' ? [{ id: String(block.id), command: commandIn(block.json) }] : [],
      )
    },
  },
}

type Item = { type: string; call_id: string; arguments: string }

const adapter = adapters[protocol as keyof typeof adapters]
const history: unknown[] = []

function commandIn(text: string): string {
  return (JSON.parse(text || '{}') as { command?: string }).command ?? 'true'
}

async function ask(body: unknown): Promise<Record<string, never>[]> {
  const response = await fetch(adapter.url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Authorization: `Bearer ${key}`,
      'X-Api-Key': key,
      'session-id': session,
    },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${response.status}: ${text}`)
  return [...text.matchAll(/^data: (\{.*\})$/gm)].map(
    ([, json = '']) => JSON.parse(json) as Record<string, never>,
  )
}

for (const message of process.argv.slice(2)) {
  if (message.startsWith('title')) {
    const asked = [{ role: 'user', content: message }]
    const body = protocol === 'responses' ? { input: asked } : { messages: asked }
    await ask({ model: 'demo', ...adapter.body(), tools: [], ...body })
    continue
  }
  history.push(
    adapter.said(`<environment_context>${process.cwd()}</environment_context>`),
    adapter.said(message),
  )
  for (;;) {
    const calls = adapter.read(await ask({ model: 'demo', ...adapter.body() }))
    if (calls.length === 0) break
    for (const call of calls) {
      history.push(adapter.outcome(call, execSync(call.command, { encoding: 'utf8' })))
    }
  }
}
