import type { ConversationId } from '../protocol/ids.ts'
import type { Attachment } from './queue.ts'

/** Texts and images that people attach to messages (C9). */
export interface AttachmentStore {
  /** Stores a text durably and returns its SHA-256. */
  keep(text: string): Promise<string>
  read(sha256: string): Promise<string>
  /** Attachments on the conversation's line, including inherited ones. */
  onLine(tenant: string, conversationId: ConversationId): Promise<Attachment[]>
}

/** A larger text is indexed; only the chunks that match a question are sent to the model. */
export const WHOLE_BYTES = 20 * 1024

/** The images that models accept, by the first characters of their base64. */
const images: Record<string, RegExp> = {
  'image/png': /^iVBORw0KGgo/,
  'image/jpeg': /^\/9j\//,
  'image/gif': /^R0lGOD/,
  'image/webp': /^UklGR/,
}
const DATA_URL = /^data:(image\/[a-z]+);base64,([A-Za-z0-9+/]{20,}={0,2})$/

/** The media type of an image that is given as a data URL; null for any other text. */
export function imageTypeOf(content: string): string | null {
  if (!content.startsWith('data:image/')) return null
  const [, type = '', data = ''] = DATA_URL.exec(content) ?? []
  return Object.hasOwn(images, type) && images[type]?.test(data) ? type : null
}

/** The index scope of an attachment's chunks. */
export function attachmentScope(sha256: string): string {
  return `attachment:${sha256}`
}

export function attachmentItem({ name, bytes }: Attachment, text: string | null): object {
  const quoted = JSON.stringify(name)
  if (text !== null && imageTypeOf(text) !== null) {
    const label = { type: 'input_text', text: `<attachment name=${quoted}/>` }
    return { role: 'user', content: [label, { type: 'input_image', image_url: text, detail: 'auto' }] }
  }
  return text === null
    ? {
        role: 'user',
        content:
          `<attachment name=${quoted} bytes="${bytes}">` +
          'Too large to show whole: the parts that match a question are sent with it.</attachment>',
      }
    : { role: 'user', content: `<attachment name=${quoted}>\n${text}\n</attachment>` }
}
