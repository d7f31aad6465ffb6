import type { ContextPartView } from '../../src/protocol/api/context.ts'

/** A piece of a request's body, in the order of the body. */
interface Piece {
  role: string
  /** Set for calls and their outputs. */
  callId: string | null
  isOutput: boolean
  text: string
}

/**
 * Finds the text of each sent part in the request's body, in any of the protocols. Null where it can't be found for certain:
 * parts of a body that doesn't list them one by one.
 */
export function textsOfParts(request: string, parts: readonly ContextPartView[]): (string | null)[] {
  const body = parsed(request)
  if (!body) return parts.map(() => null)
  const pieces = piecesOf(body)
  const unmarked = pieces.filter((piece) => piece.callId === null && markOf(piece.text) === null)
  const plain = new Map(['user', 'assistant'].map((role) => [role, alignedFromEnd(role)]))

  /** The messages of a role, paired with their parts from the end: a long history lists only its end. */
  function alignedFromEnd(role: string): Map<ContextPartView, string> {
    const said = unmarked.filter((piece) => piece.role === role)
    const listed = parts.filter(({ origin, sent }) => sent && isMessage(origin) && origin.role === role)
    const isCut = parts.some(({ origin }) => origin.type === 'history')
    if (said.length !== listed.length && !(isCut && said.length > listed.length)) return new Map()
    const first = said.length - listed.length
    return new Map(listed.map((part, index) => [part, said[first + index]?.text ?? '']))
  }

  return parts.map((part) => {
    if (!part.sent) return null
    const { origin } = part
    if (origin.type === 'instructions') return instructionsOf(body)
    if (origin.type === 'tools') return body.tools === undefined ? null : laidOut(body.tools)
    if (origin.type === 'tool_call' || origin.type === 'tool_output') {
      const isOutput = origin.type === 'tool_output'
      const ofCall = (piece: Piece) => piece.callId === origin.tool_call_id && piece.isOutput === isOutput
      return pieces.find(ofCall)?.text ?? null
    }
    if (isMessage(origin)) return plain.get(origin.role ?? '')?.get(part) ?? null
    const mark = markOfOrigin(origin)
    return mark === null ? null : (pieces.findLast((piece) => markOf(piece.text) === mark)?.text ?? null)
  })
}

type Origin = ContextPartView['origin']
type Fields = Record<string, unknown>

function isMessage({ type }: Origin): boolean {
  return type === 'message'
}

/** Files, snippets and attachments begin with a tag that names them. */
function markOf(text: string): string | null {
  const [, tag = '', name = '', lines = ''] =
    /^<(active_file|project_instructions|changed_file|deleted_file|snippet|attachment) (?:path|name)=("(?:[^"\\]|\\.)*")(?: lines="([\d-]+)")?/.exec(
      text,
    ) ?? []
  if (tag === '') return null
  const kind = tag === 'snippet' || tag === 'attachment' ? tag : 'file'
  return `${kind} ${name} ${lines}`
}

function markOfOrigin({ type, path, name, start_line, end_line }: Origin): string | null {
  if (type === 'file') return `file ${JSON.stringify(path)} `
  if (type === 'chunk') return `snippet ${JSON.stringify(path)} ${start_line}-${end_line}`
  return type === 'attachment' ? `attachment ${JSON.stringify(name)} ` : null
}

function instructionsOf(body: Fields): string | null {
  const stated = body.instructions ?? body.system
  if (stated !== undefined) return textOf(stated)
  const [first] = listOf(body.messages)
  return first && (first.role === 'system' || first.role === 'developer') ? textOf(first.content) : null
}

function piecesOf(body: Fields): Piece[] {
  return [...listOf(body.input), ...listOf(body.messages)].flatMap((item) => piecesOfItem(item))
}

function piecesOfItem(item: Fields): Piece[] {
  const { type, role, content } = item
  const callId = stringOf(item.call_id ?? item.tool_call_id)
  if (callId !== null) {
    const isOutput = role === 'tool' || String(type).endsWith('_output')
    const said = isOutput ? (item.output ?? content) : (item.arguments ?? item.input ?? item)
    return [{ role: 'tool', callId, isOutput, text: textOf(said) }]
  }
  const calls = listOf(item.tool_calls).map((call): Piece => {
    const { arguments: written } = (call.function ?? {}) as Fields
    return { role: 'tool', callId: stringOf(call.id), isOutput: false, text: textOf(written) }
  })
  const isSaid = role === 'user' || role === 'assistant'
  if (!isSaid) return calls
  if (typeof content === 'string') return [...plainPiece(role, content), ...calls]
  return [...blocksOf(role, listOf(content)), ...calls]
}

function plainPiece(role: string, text: string): Piece[] {
  return text === '' ? [] : [{ role, callId: null, isOutput: false, text }]
}

function blocksOf(role: string, blocks: readonly Fields[]): Piece[] {
  return blocks.flatMap((block): Piece[] => {
    if (block.type === 'tool_use')
      return [{ role: 'tool', callId: stringOf(block.id), isOutput: false, text: textOf(block.input) }]
    if (block.type === 'tool_result')
      return [
        { role: 'tool', callId: stringOf(block.tool_use_id), isOutput: true, text: textOf(block.content) },
      ]
    return typeof block.text === 'string' ? plainPiece(role, block.text) : []
  })
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (Array.isArray(value) && value.every((block) => typeof (block as Fields)?.text === 'string'))
    return value.map((block: Fields) => block.text).join('\n')
  return laidOut(value)
}

function laidOut(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? ''
}

function listOf(value: unknown): Fields[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'object' && one !== null) : []
}

function stringOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function parsed(request: string): Fields | null {
  try {
    const body: unknown = JSON.parse(request)
    return typeof body === 'object' && body !== null ? (body as Fields) : null
  } catch {
    return null
  }
}
