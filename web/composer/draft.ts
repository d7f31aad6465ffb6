import { newId } from '../../src/protocol/ids.ts'
import type { Attached } from './attachments.ts'

/** A message as it is written. */
export interface Draft {
  content: string
  /** Files named with @, which the model sees whole. */
  files: readonly string[]
  /** Texts that go along. */
  attached: readonly Attached[]
  /** Sent again unchanged, it is accepted once; whatever changes it makes it another message. */
  key: string
}

export interface Drafts {
  draft: Draft
  /** Sent, and not known to be accepted: the first was sent first. */
  unsent: readonly Draft[]
  /** Names of texts that went along and were lost with the tab they were in. */
  lost: readonly string[]
}

export function emptyDraft(): Draft {
  return { content: '', files: [], attached: [], key: newId('msg') }
}

/** As another message. */
export function renewed(draft: Draft): Draft {
  return { ...draft, key: newId('msg') }
}

export function isEmpty({ content, files, attached }: Draft): boolean {
  return content === '' && files.length === 0 && attached.length === 0
}
