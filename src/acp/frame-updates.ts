import type { SessionUpdate, ToolKind } from '@agentclientprotocol/sdk'
import type { FrameKind } from '../protocol/frame-kinds.ts'
import { APPROVED_AGAIN, isKnownKind } from '../protocol/frame-kinds.ts'
import type { AnyFrame, Frame } from '../protocol/frames.ts'

/** Turns frames into the session updates that an editor shows. Live and replayed frames take the same way. */
export interface FrameUpdates {
  updatesOf(frame: AnyFrame): SessionUpdate[]
}

type Handlers = { [K in FrameKind]: (frame: Frame<K>) => SessionUpdate[] }

const nothing = () => []

/** Editors choose an icon by the kind. */
const kinds: Readonly<Record<string, ToolKind>> = {
  read_file: 'read',
  list_files: 'read',
  get_tool_result: 'read',
  search_files: 'search',
  write_to_file: 'edit',
  replace_in_file: 'edit',
  delete_file: 'delete',
  run_command: 'execute',
}

const MAX_OUTPUT = 64 * 1024

export function createFrameUpdates(): FrameUpdates {
  /** What each call's card shows so far: an update replaces the whole content. */
  const contents = new Map<string, { output: string; edits: string[]; paths: string[] }>()

  function contentOf(id: string) {
    let content = contents.get(id)
    if (!content) contents.set(id, (content = { output: '', edits: [], paths: [] }))
    return content
  }

  function shown(
    id: string,
  ): Pick<Extract<SessionUpdate, { sessionUpdate: 'tool_call_update' }>, 'content' | 'locations'> {
    const { output, edits, paths } = contentOf(id)
    const texts = [...edits.map((diff) => `\`\`\`diff\n${diff}\n\`\`\``), ...(output === '' ? [] : [output])]
    return {
      content: texts.map((text) => ({ type: 'content', content: { type: 'text', text } })),
      ...(paths.length === 0 ? {} : { locations: paths.map((path) => ({ path })) }),
    }
  }

  const handlers: Handlers = {
    'conversation.created': nothing,
    'conversation.forked': nothing,
    'conversation.truncated': ({ cut_after }) =>
      say(`\n\n*Messages after event ${cut_after} were deleted.*\n\n`),
    'conversation.retitled': ({ title }) => [{ sessionUpdate: 'session_info_update', title }],
    'message.user': ({ content, message_id }) => [
      {
        sessionUpdate: 'user_message_chunk',
        messageId: message_id,
        content: { type: 'text', text: content },
      },
    ],
    lifecycle: ({ reason, status }) => (reason && status === 'in_progress' ? think(`${reason}\n`) : []),
    final: nothing,
    error: ({ error }) => say(`\n\n**${error.message}**\n`),
    'agent.updated': nothing,
    'output_item.added': nothing,
    'output_item.done': ({ item_type }) => (item_type === 'message' ? say('\n\n') : []),
    'message.delta': ({ delta }) => say(delta),
    'message.citation': nothing,
    'reasoning_summary.part.added': nothing,
    'reasoning_summary.delta': ({ delta }) => think(delta),
    'reasoning_summary.part.done': nothing,
    'refusal.delta': ({ delta }) => say(delta),
    'refusal.done': nothing,
    'tool.status': ({ tool, tool_call_id }) => {
      const status = tool.status === 'completed' || tool.status === 'failed' ? tool.status : 'in_progress'
      const { title } = tool as { title?: unknown }
      const named = typeof title === 'string' && title !== '' ? { title } : {}
      return [{ sessionUpdate: 'tool_call_update', toolCallId: tool_call_id, status, ...named }]
    },
    'tool.arguments.delta': nothing,
    'tool.arguments.done': ({ tool_call_id, tool_name, arguments_json, arguments_text }) => [
      {
        sessionUpdate: 'tool_call',
        toolCallId: tool_call_id,
        title: titleOf(tool_name, arguments_json),
        kind: kinds[tool_name] ?? 'other',
        status: 'pending',
        rawInput: arguments_json ?? { text: arguments_text },
      },
    ],
    'tool.code.delta': nothing,
    'tool.code.done': nothing,
    'tool.output': ({ tool_call_id, output, partial }) => {
      const content = contentOf(tool_call_id)
      const text = typeof output === 'string' ? output : JSON.stringify(output)
      content.output = (partial ? content.output + text : text).slice(-MAX_OUTPUT)
      return [{ sessionUpdate: 'tool_call_update', toolCallId: tool_call_id, ...shown(tool_call_id) }]
    },
    'tool.approval': nothing,
    'chunk.delta': nothing,
    'chunk.done': nothing,
    'workspace.checkpoint': nothing,
    'file.edit': ({ tool_call_id, path, diff, change }) => {
      if (tool_call_id === undefined) return say(`\n*${change} ${path}*\n`)
      const content = contentOf(tool_call_id)
      content.paths.push(path)
      content.edits.push(diff ?? `${change} ${path}`)
      return [{ sessionUpdate: 'tool_call_update', toolCallId: tool_call_id, ...shown(tool_call_id) }]
    },
    'workspace.restored': ({ restored, deleted, adopted_from }) =>
      say(
        `\n*Files ${adopted_from === undefined ? 'restored' : 'adopted from a fork'}: ${restored} written, ${deleted} deleted.*\n`,
      ),
    'session.approved': ({ closed_session, message }) =>
      say(
        message === APPROVED_AGAIN
          ? '\n*Undo or redo changed which files count as approved.*\n'
          : `\n*${closed_session} was approved.*\n`,
      ),
    'session.reset': ({ closed_session }) => say(`\n*${closed_session} was discarded.*\n`),
    'memory.checkpoint': ({ checkpoint }) =>
      think(`The model's memory was shortened: ${checkpoint.strategy}.\n`),
    'agent.checkpoint': nothing,
    'import.session': nothing,
    'import.entry': nothing,
  }

  return {
    updatesOf(frame) {
      if (!isKnownKind(frame.kind)) return []
      const handle = handlers[frame.kind] as (given: AnyFrame) => SessionUpdate[]
      return handle(frame)
    },
  }
}

function say(text: string): SessionUpdate[] {
  return [{ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } }]
}

function think(text: string): SessionUpdate[] {
  return [{ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text } }]
}

function titleOf(name: string, args: unknown): string {
  const { command, path } = (args ?? {}) as { command?: unknown; path?: unknown }
  const what = [command, path].find((value): value is string => typeof value === 'string')
  return what === undefined ? name : `${name}: ${what.slice(0, 200)}`
}
