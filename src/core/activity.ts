/** The part of a frame that statistics count. */
export interface Activity {
  kind: 'call' | 'agent' | 'end'
  /** The tool or the agent. */
  name: string
  /** The call or the model. */
  detail: string | null
  status: string
  input_tokens?: number
  output_tokens?: number
  cached_tokens?: number
}

export const noActivity = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 }

const MAX_NAME = 200
const kinds = new Set(['tool.status', 'agent.updated', 'final', 'error'])

export function isActivity(kind: string): boolean {
  return kinds.has(kind)
}

export function activityOf(frame: Record<string, unknown>): Activity | null {
  switch (frame.kind) {
    case 'tool.status': {
      const { tool_call_id, status, name, tool_name, tool_type } = asObject(frame.tool)
      if (tool_type === 'note') return null
      const tool = textOf(name) ?? textOf(tool_name) ?? textOf(tool_type) ?? 'unknown'
      return { kind: 'call', name: tool, detail: textOf(tool_call_id), status: textOf(status) ?? '' }
    }
    case 'agent.updated':
      return {
        kind: 'agent',
        name: textOf(frame.to_agent) ?? 'unknown',
        detail: textOf(frame.model),
        status: '',
      }
    case 'error':
      return { kind: 'end', name: '', detail: null, status: 'error' }
    case 'final': {
      const { status, usage } = asObject(frame.final)
      const { input_tokens, output_tokens, cached_input_tokens } = asObject(usage)
      return {
        kind: 'end',
        name: '',
        detail: null,
        status: textOf(status) ?? '',
        input_tokens: countOf(input_tokens),
        output_tokens: countOf(output_tokens),
        cached_tokens: countOf(cached_input_tokens),
      }
    }
    default:
      return null
  }
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** Postgres accepts neither NUL nor lone surrogates. */
function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value.slice(0, MAX_NAME).replaceAll('\u0000', '').toWellFormed() : null
}

function countOf(value: unknown): number {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : 0
}
