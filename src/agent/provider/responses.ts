import type { ResponseStreamEvent } from 'openai/resources/responses/responses'
import type { ModelItem } from '../../core/request-plan.ts'
import { openOpenAi } from './open-openai.ts'
import type { ModelRequest, Protocol, ResponsesBody } from './protocol.ts'

/** The Responses API: the form of our own entries, so that most items are sent as they are. */
export const responses: Protocol = {
  name: 'responses',
  path: '/responses',
  hasChains: true,
  sendable: plainItem,
  bodyOf: (request: ModelRequest) => ({ ...request, stream: true }),
  async open(server) {
    const client = await openOpenAi(server)
    return {
      async stream(body, request): Promise<AsyncIterable<ResponseStreamEvent>> {
        return await client.withOptions({ fetch: request }).responses.create(body as ResponsesBody)
      },
    }
  },
}

/**
 * Types that the API accepts without an id. All others need theirs: a response refers to it, or the schema requires it.
 */
const WITHOUT_ID = new Set([
  'message',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
  'shell_call',
  'shell_call_output',
  'apply_patch_call',
  'apply_patch_call_output',
  'tool_search_call',
  'tool_search_output',
])
const NEEDS_STATUS = new Set(['apply_patch_call', 'apply_patch_call_output'])

interface SentItem {
  type?: string
  role?: string
  id?: string
  status?: string
  content?: unknown
  native?: { protocol: string }
  extra_content?: unknown
}

/**
 * An item in a form that any server accepts, including one that hasn't stored it: without ids that only the original
 * server can look up. Null for reasoning and for tools that a server of another protocol ran itself.
 */
function plainItem(item: ModelItem): ModelItem | null {
  const { id, status, native, extra_content: _, ...others } = item as SentItem
  const isNameless = others.type === undefined || WITHOUT_ID.has(others.type)
  const rest = {
    ...(isNameless || id === undefined ? {} : { id }),
    ...((isNameless && !NEEDS_STATUS.has(others.type ?? '')) || status === undefined ? {} : { status }),
    ...others,
  }
  if (rest.type === 'reasoning') return null
  if (rest.type !== 'message' || rest.role !== 'assistant' || !Array.isArray(rest.content)) {
    return native ? null : rest
  }
  const texts = (rest.content as { text?: string; refusal?: string }[]).map(
    (part) => part.text ?? part.refusal ?? '',
  )
  return { role: 'assistant', content: texts.join('\n') }
}
