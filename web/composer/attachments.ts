import type { SendMessage } from '../../src/protocol/api/runs.ts'
import { newId } from '../../src/protocol/ids.ts'
import { server } from '../server.ts'
import { text } from '../text.ts'

/** A text, or an image as a data URL, attached to a message. */
export interface Attached {
  id: string
  name: string
  content: string
  bytes: number
}

const MAX_BYTES = 4_000_000

/** Reads dropped or chosen files, and returns a reason for each file that can't be attached. */
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
  // Folders and unreadable files look like files until they are read.
  const bytes = await file.arrayBuffer().catch(() => null)
  if (bytes === null) return { refused: text.composer.notReadable(file.name) }
  if (imageTypes.has(file.type)) return await dataUrl(file)
  const content = textIn(new Uint8Array(bytes))
  if (content === null) return { refused: text.composer.noText(file.name) }
  return content === '' ? { refused: text.composer.isEmpty(file.name) } : content
}

const imageTypes = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp'])

function dataUrl(file: File): Promise<string | { refused: string }> {
  return new Promise((resolve) => {
    const reader = new FileReader()
    reader.addEventListener('load', () => resolve(reader.result as string))
    reader.addEventListener('error', () => resolve({ refused: text.composer.notReadable(file.name) }))
    reader.readAsDataURL(file)
  })
}

/** The server's limit per message. */
export const MAX_ATTACHED = 20

/** Loads the attachments of a sent message, to attach them again. */
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
