import type { SendMessage } from '../../src/protocol/api/runs.ts'
import { newId } from '../../src/protocol/ids.ts'
import { server } from '../server.ts'
import { text } from '../text.ts'

/** A text that goes along with a message. */
export interface Attached {
  id: string
  name: string
  content: string
  bytes: number
}

const MAX_BYTES = 4_000_000

/** Reads what was dropped or chosen; says of what can't be sent why. */
export async function readAttachments(
  files: readonly File[],
): Promise<{ read: Attached[]; refused: string[] }> {
  const read: Attached[] = []
  const refused: string[] = []
  for (const file of files) {
    const content = await contentOf(file)
    const { name, size: bytes } = file
    if (typeof content !== 'string') refused.push(content.refused)
    else read.push({ id: newId('msg'), name: name.slice(0, 200), content, bytes })
  }
  return { read, refused }
}

async function contentOf(file: File): Promise<string | { refused: string }> {
  if (file.size > MAX_BYTES) return { refused: text.composer.tooLarge(file.name) }
  // A folder, or what may not be read, looks like a file until then.
  const bytes = await file.arrayBuffer().catch(() => null)
  if (bytes === null) return { refused: text.composer.notReadable(file.name) }
  const content = textIn(new Uint8Array(bytes))
  if (content === null) return { refused: text.composer.noText(file.name) }
  return content === '' ? { refused: text.composer.isEmpty(file.name) } : content
}

/** As many as the server takes with a message. */
export const MAX_ATTACHED = 20

/** Those that went with a message, to go along once more. */
export async function readSent(
  conversationId: string,
  attachments: readonly { name: string; sha256: string }[],
): Promise<Attached[]> {
  return await Promise.all(
    attachments.map(async ({ name, sha256 }) => {
      const { content, bytes } = await server.attachment(conversationId, sha256)
      return { id: newId('msg'), name, content, bytes }
    }),
  )
}

export function asSent(attached: readonly Attached[]): Pick<SendMessage, 'attachments'> {
  return attached.length === 0
    ? {}
    : { attachments: attached.map(({ name, content }) => ({ name, content })) }
}

function textIn(bytes: Uint8Array): string | null {
  if (bytes.includes(0)) return null
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}
